package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// finishWithoutPush ends an instance without an answer to the waiting clients, as an owner does that dies after its commit.
func (w *owner) finishWithoutPush(id string, a request.Answer) {
	w.mu.Lock()
	w.mute = true
	w.mu.Unlock()
	w.finish(id, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = false
}

// inBackground waits for the result of r in a goroutine, and sends it to the returned channel.
func inBackground(t *testing.T, r *RawInstance) <-chan string {
	t.Helper()
	ctx, got := soon(t), make(chan string, 1)
	go func() {
		p, err := r.Result(ctx)
		got <- fmt.Sprintf("%s %v", p.Data, err)
	}()
	return got
}

func wantResult(t *testing.T, got <-chan string, want string) {
	t.Helper()
	select {
	case s := <-got:
		if s != want+" <nil>" {
			t.Fatalf("result %q, want %q", s, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("no result")
	}
}

func raw(text string) request.Answer {
	return request.Answer{Status: "completed", Result: history.Payload{Type: history.TypeJSON, Data: []byte(text)}}
}

func TestResultIsRequestedAgainWhenOwnerIsAnnounced(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	for i, run := range []func(id string) *RawInstance{
		func(id string) *RawInstance {
			run, err := c.StartRaw(soon(t), "x", id, history.Payload{})
			ok(t, err)
			return run
		},
		func(id string) *RawInstance {
			_, err := c.StartRaw(soon(t), "x", id, history.Payload{})
			ok(t, err)
			return c.AttachRaw(id)
		},
	} {
		id := fmt.Sprint("i-", i)
		r := run(id)
		w.input(i)
		got := inBackground(t, r)
		w.finishWithoutPush(id, raw(`"done"`))
		ok(t, w.conn.AnnounceOwner(w.conn.PartitionOf(id)))
		wantResult(t, got, `"done"`)
	}
}

func TestResultIsRequestedWhenOwnerWasAnnouncedBetweenStartAndCall(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	run, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	w.finishWithoutPush("a", raw(`"done"`))
	ok(t, w.conn.AnnounceOwner(w.conn.PartitionOf("a")))
	poll.Until(t, time.Minute, "the announcement arrives", func() bool {
		select {
		case <-run.owner:
			return true
		default:
			return false
		}
	})
	wantResult(t, inBackground(t, run), `"done"`)
}

func TestLateCallOfResultRequestsAtOnce(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	run, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	w.finishWithoutPush("a", raw(`"done"`))
	run.started = run.started.Add(-c.opts.RepeatInterval)
	wantResult(t, inBackground(t, run), `"done"`)
}

func TestResultIsRequestedAgainWhenConnectionIsBack(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	run, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	got := inBackground(t, run)
	w.finishWithoutPush("a", raw(`"done"`))
	ok(t, c.conn.NATS().ForceReconnect())
	wantResult(t, got, `"done"`)
}

// An owner that is stopped or disconnected does not answer, and delays a waiting client by the timeout of a request.
func TestRequestGoesToAnAnnouncedOwner(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	_, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	requested, hold := make(chan struct{}, 100), make(chan struct{})
	w.mu.Lock()
	w.hang = func() {
		requested <- struct{}{}
		<-hold
	}
	w.mu.Unlock()
	got := inBackground(t, c.AttachRaw("a"))
	<-requested
	w.mu.Lock()
	w.hang = nil
	w.mu.Unlock()
	w.finishWithoutPush("a", raw(`"done"`))
	ok(t, w.conn.AnnounceOwner(w.conn.PartitionOf("a")))
	wantResult(t, got, `"done"`)
	close(hold)
}

func TestAttachWaitsForAStartThatHasNotBeenIngested(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour, OwnerTimeout: time.Minute})
	got := inBackground(t, c.AttachRaw("a"))
	poll.Until(t, time.Minute, "an unanswered request", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.unknownRequests > 0
	})
	_, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	w.finish("a", raw(`"done"`))
	wantResult(t, got, `"done"`)
}

func TestAttachToAnUnknownIDIsNotFoundAfterATimeout(t *testing.T) {
	_, c := startOwner(t, Options{RepeatInterval: time.Hour, OwnerTimeout: 50 * time.Millisecond})
	began := time.Now()
	if _, err := c.AttachRaw("absent").Result(soon(t)); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Fatalf("gave up after %v", took)
	}
}

func TestNextStatusIsRequestedAgainWhenOwnerIsAnnounced(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	ctx, got := soon(t), make(chan error, 1)
	go func() {
		_, err := NextStatus(ctx, c, progress, "a-1", 0)
		got <- err
	}()
	w.watched("a-1", 1)
	w.mu.Lock()
	w.mute = true
	w.mu.Unlock()
	w.setStatus("a-1", statusOf(t, progress, 1, 10))
	ok(t, w.conn.AnnounceOwner(w.conn.PartitionOf("a-1")))
	ok(t, <-got)
}
