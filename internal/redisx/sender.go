package redisx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoScript is the error of a node that does not keep loaded scripts.
var errNoScript = errors.New("the node does not have a script that was just loaded")

// errOverdue is the error of calls to a node that does not reply within callTimeout.
var errOverdue = fmt.Errorf("no reply within %v: %w", callTimeout, os.ErrDeadlineExceeded)

// sender sends the batches of a lane, one at a time. The client may take as long as its own timeouts allow. Therefore an overdue batch is
// taken from its sender, which ends when the client returns, and another sender replaces it.
type sender struct {
	lane  *lane
	timer *time.Timer

	mu       sync.Mutex
	batch    []flight // the outstanding batch
	began    time.Time
	replaced bool
}

// sender starts a sender. The caller holds Runner.mu.
func (l *lane) sender() {
	s := &sender{lane: l}
	s.timer = time.AfterFunc(callTimeout, s.overdue)
	s.timer.Stop()
	l.runner.wg.Add(1)
	go s.run()
}

func (s *sender) run() {
	l := s.lane
	for {
		select {
		case <-l.runner.ctx.Done():
			answerAll(l.end(), ErrClosed)
			l.runner.wg.Done()
			return
		case <-l.quit:
			l.runner.wg.Done()
			return
		case <-l.wake:
		}
		if batch := l.take(); len(batch) > 0 && !s.send(batch) {
			return
		}
	}
}

// overdue takes the batch from a sender whose client does not return. Close no longer waits for this sender.
func (s *sender) overdue() {
	s.mu.Lock()
	var batch []flight
	if time.Since(s.began) >= callTimeout { // otherwise the next batch has begun
		batch, s.batch = s.batch, nil
	}
	s.replaced = len(batch) > 0
	s.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	l := s.lane
	l.runner.took(callTimeout, true)
	l.down(batch, errOverdue)
	l.runner.mu.Lock()
	if !l.runner.closed {
		l.sender()
	}
	l.runner.mu.Unlock()
	l.runner.wg.Done()
}

// begin starts the timeout of a batch.
func (s *sender) begin(batch []flight) {
	s.mu.Lock()
	s.batch, s.began = batch, time.Now()
	s.mu.Unlock()
	s.timer.Reset(callTimeout)
}

// end stops the timeout. It returns false if the batch was overdue.
func (s *sender) end() bool {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch = nil
	return !s.replaced
}

// send executes a batch. If a master has lost scripts (by a restart or a failover), it loads them and repeats the calls that failed for
// that reason. It returns false if the sender was replaced.
func (s *sender) send(batch []flight) bool {
	missing, ok := s.pipeline(batch, false)
	if ok && len(missing) > 0 {
		missing, ok = s.pipeline(missing, true)
	}
	if ok {
		for _, f := range missing {
			f.fail(errNoScript)
		}
	}
	return ok
}

// pipeline sends a batch, after loading its scripts if load is set, and processes the replies. It returns the calls whose scripts the
// node does not have; ok is false if the sender was replaced.
func (s *sender) pipeline(batch []flight, load bool) (noScript []flight, ok bool) {
	l := s.lane
	// Close waits for an outstanding batch: its writes may have taken effect, and its callers should receive the replies.
	ctx, stop := context.WithTimeout(l.runner.calls, callTimeout)
	defer stop()
	pipe := l.client.Pipeline()
	commands := l.runner.commands(batch)
	if load {
		for _, f := range formsOf(commands) {
			pipe.ScriptLoad(ctx, f.source)
		}
	}
	for i := range commands {
		commands[i].cmd = pipe.Do(ctx, commands[i].wire()...)
	}
	s.begin(batch)
	_, _ = pipe.Exec(ctx)       // each command carries its own error
	took := time.Since(s.began) // only this goroutine writes began
	if !s.end() {
		return nil, false
	}
	var failed failures
	for i := range commands {
		commands[i].replies(func(f flight, reply any, err error) { l.replied(f, reply, err, &failed) })
	}
	l.runner.took(took, len(failed.lost) > 0)
	if len(failed.transient) > 0 {
		l.runner.later(failed.transient)
	}
	if len(failed.lost) > 0 {
		l.down(failed.lost, failed.lostBy)
	}
	return failed.noScript, true
}

// failures are the calls of a batch that are to be repeated.
type failures struct {
	lost, transient, noScript []flight
	lostBy                    error // first error of the lost calls
}

// replied processes the reply to a call.
func (l *lane) replied(f flight, reply any, err error, failed *failures) {
	if err == nil || isReply(err) {
		l.runner.observe(f.call.name(), err)
	}
	switch {
	case err == nil:
		f.done(reply, nil)
	case errors.Is(err, redis.Nil):
		f.done(nil, nil)
	case errors.Is(err, ErrReply):
		f.fail(err)
	case !isReply(err):
		failed.lost = append(failed.lost, f)
		if failed.lostBy == nil {
			failed.lostBy = err
		}
	case strings.HasPrefix(err.Error(), "NOSCRIPT"):
		failed.noScript = append(failed.noScript, f)
	case l.runner.slots != nil && isRedirect(err):
		l.runner.redirect(f)
	case strings.HasPrefix(err.Error(), "CROSSSLOT") && f.call.Join && f.tries == 0: // a proxy in front of several nodes
		l.runner.divided.Store(true)
		failed.transient = append(failed.transient, f)
	case isTransient(err) && time.Now().Before(f.until):
		failed.transient = append(failed.transient, f)
	default:
		f.fail(err)
	}
}
