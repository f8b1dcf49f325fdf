package redistest

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Held is a way to Redis on which pipelines wait until Release.
type Held struct {
	began    chan []string
	commands chan int // receives the number of commands of each pipeline behind those
	release  chan struct{}
}

// Hold holds the pipelines of a client. At most 64 may follow those that wait.
func Hold(rdb redis.UniversalClient) *Held {
	h := &Held{began: make(chan []string), commands: make(chan int, 64), release: make(chan struct{})}
	rdb.AddHook(h)
	return h
}

// Began receives the commands of each pipeline that waits.
func (h *Held) Began() <-chan []string { return h.began }

// Release lets the pipelines pass.
func (h *Held) Release() { close(h.release) }

// Commands returns how many commands the pipelines had that began behind Release, of which the caller has all replies.
func (h *Held) Commands() (n int) {
	for range len(h.commands) {
		n += <-h.commands
	}
	return n
}

// DialHook changes nothing.
func (h *Held) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook changes nothing.
func (h *Held) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook holds pipelines.
func (h *Held) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		select {
		case <-h.release:
			h.commands <- len(cmds)
		default:
			var commands []string
			for _, c := range cmds {
				commands = append(commands, fmt.Sprint(c.Args()...))
			}
			select {
			case h.began <- commands:
				<-h.release
			case <-h.release: // the test asks for no more of them
			}
		}
		return next(ctx, cmds)
	}
}
