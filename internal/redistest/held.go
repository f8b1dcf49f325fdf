package redistest

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Held is a hook of a client that holds its pipelines until Release.
type Held struct {
	began    chan []string
	commands chan int // receives the number of commands of each later pipeline
	release  chan struct{}
}

// Hold holds the pipelines of a client. At most 64 may follow after Release before Commands is called.
func Hold(rdb redis.UniversalClient) *Held {
	h := &Held{began: make(chan []string), commands: make(chan int, 64), release: make(chan struct{})}
	rdb.AddHook(h)
	return h
}

// Began returns a channel that receives the commands of each held pipeline.
func (h *Held) Began() <-chan []string { return h.began }

// Release sends the held pipelines, and holds no more.
func (h *Held) Release() { close(h.release) }

// Commands returns the number of commands of the pipelines that began after Release. The caller must have all their replies.
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
			case <-h.release: // the test does not receive this one
			}
		}
		return next(ctx, cmds)
	}
}
