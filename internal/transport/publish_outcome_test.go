package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// scripted deletes the INPUTS stream and answers publishes in its place: the n-th attempt receives the n-th answer; "" means no answer.
// Further attempts receive the status "no responders".
func scripted(t *testing.T, c *Conn, answers ...string) (attempts func() int) {
	t.Helper()
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	var mu sync.Mutex
	n := 0
	_, err := c.nc.Subscribe(c.subj.root+"to.*.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		n++
		switch {
		case n > len(answers):
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
		case answers[n-1] != "":
			_ = m.Respond([]byte(answers[n-1]))
		}
	})
	ok(t, err)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

const (
	fullStream = `{"stream":"x","error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`
	oversized  = `{"stream":"x","error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`
	diskError  = `{"stream":"x","error":{"code":503,"err_code":10077,"description":"write: input/output error"}}`
)

// An application that receives "not accepted" may repeat the operation under another id, so the operation would be executed twice.
func TestAfterAnUnansweredAttemptOnlyUnknownIsReturned(t *testing.T) {
	for name, answers := range map[string][]string{
		"then no stream":                {""},
		"then a full stream":            {"", fullStream, fullStream, fullStream, fullStream, fullStream, fullStream, fullStream, fullStream, fullStream, fullStream},
		"then a rejected message":       {"", oversized, oversized, oversized, oversized, oversized, oversized, oversized, oversized},
		"an undecodable PubAck":         {"{"},
		"an empty PubAck from a stream": {`{}`},
		"a disk error of the leader":    {diskError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newHarness(t).open(Options{PublishTimeout: 200 * time.Millisecond})
			attempts := scripted(t, c, answers...)
			in := event("a", "x", "1")
			in.ID = "once"
			ctx, end := context.WithCancel(soon(t))
			defer end()
			done := make(chan error, 1)
			go func() { _, err := c.PublishInput(ctx, in); done <- err }()
			eventually(t, "several attempts", func() bool { return attempts() > 3 || len(done) > 0 })
			end()
			err := get(t, done, "the publish")
			if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
				t.Errorf("after %d attempts: %v", attempts(), err)
			}
			for _, not := range []error{ErrNoStream, ErrStreamFull, ErrTooLarge, ErrMalformed} {
				if errors.Is(err, not) {
					t.Errorf("%v claims that the input was not accepted: %v", err, not)
				}
			}
			if attempts() < 2 {
				t.Errorf("%d attempts, want a repetition after an unknown outcome", attempts())
			}
		})
	}
}

func TestUnansweredAttemptIsRepeatedUntilItIsAnswered(t *testing.T) {
	c := newHarness(t).open(Options{PublishTimeout: 200 * time.Millisecond})
	accepted := slices.Repeat([]string{`{"stream":"x","seq":7}`}, 99) // on a slow machine, some are answered too late
	scripted(t, c, slices.Concat([]string{"", fullStream, oversized}, accepted)...)
	in := event("a", "x", "1")
	in.ID = "once"
	if seq, err := c.PublishInput(soon(t), in); err != nil || seq != 7 {
		t.Fatal(seq, err)
	}
}

func TestFailedAttemptIsReturnedAsNotAccepted(t *testing.T) {
	for answer, want := range map[string]error{fullStream: ErrStreamFull, oversized: ErrTooLarge} {
		c := newHarness(t).open(Options{})
		scripted(t, c, answer)
		in := event("a", "x", "1")
		in.ID = "once"
		if _, err := c.PublishInput(soon(t), in); !errors.Is(err, want) || errors.Is(err, ErrUnknown) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// A stream whose leader is being elected has no responders for seconds.
func TestPublishWaitsForAStreamWithoutALeader(t *testing.T) {
	for _, id := range []string{"once", ""} { // no server accepted it: a repetition is harmless even without an id
		c := newHarness(t).open(Options{})
		attempts := scripted(t, c)
		in := event("a", "x", "1")
		in.ID = id
		done := make(chan error, 1)
		go func() { _, err := c.PublishInput(soon(t), in); done <- err }()
		eventually(t, "many attempts", func() bool { return attempts() > 5 })
		select {
		case err := <-done:
			t.Fatalf("failed after %d attempts: %v", attempts(), err)
		default:
		}
		_, err := c.js.CreateStream(soon(t), jetstream.StreamConfig{Name: c.inputs.Name, Subjects: c.inputs.Subjects, Storage: jetstream.MemoryStorage})
		ok(t, err)
		ok(t, get(t, done, "the publish"))
	}
}

func TestPublishWithoutAStreamReturnsErrNoStreamWhenItsContextEnds(t *testing.T) {
	c := newHarness(t).open(Options{})
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	var err error
	for range 30 { // if the context ends during an attempt, the outcome is unknown
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		_, err = c.PublishInput(ctx, event("a", "x", "1"))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if errors.Is(err, ErrNoStream) && !errors.Is(err, ErrUnknown) {
			return
		}
	}
	t.Fatal(err)
}

func TestPublishWithUnknownOutcomeIsNotRepeatedWithoutAnID(t *testing.T) {
	c := newHarness(t).open(Options{})
	attempts := scripted(t, c, "", "")
	done := make(chan error, 1)
	go func() { _, err := c.PublishInput(soon(t), event("a", "x", "1")); done <- err }()
	eventually(t, "the first attempt", func() bool { return attempts() == 1 })
	c.toInputs.failAll(ErrDisconnected) // as if the connection was lost
	if err := get(t, done, "the publish"); !errors.Is(err, ErrUnknown) || !errors.Is(err, ErrDisconnected) {
		t.Fatal(err)
	}
	if attempts() != 1 {
		t.Fatalf("%d attempts", attempts())
	}
}

// Nothing was sent, so another attempt cannot duplicate anything.
func TestPublishWithoutAnIDWaitsForAConnection(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	handled := unanswered(t, c) // otherwise the handling may end the publish, whose outcome is then unknown
	s.stop()
	get(t, handled, "the loss of the connection")
	done := make(chan error, 1)
	go func() { _, err := c.PublishInput(soon(t), event("a", "x", "1")); done <- err }()
	s.start()
	ok(t, get(t, done, "the publish"))
}
