package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// statusOf encodes a custom status of an instance.
func statusOf(t *testing.T, s pawl.Status[order], version uint64, n int) request.CustomStatus {
	t.Helper()
	p, err := author.Value(s).Encode(order{N: n})
	ok(t, err)
	return request.CustomStatus{Version: version, Payload: p}
}

// running returns an owner with one running instance, a-1.
func running(t *testing.T, o Options) (*owner, *Client, pawl.Status[order]) {
	t.Helper()
	w, c := startOwner(t, o)
	_, err := c.StartRaw(soon(t), "x", "a-1", history.Payload{})
	ok(t, err)
	w.input(0)
	return w, c, pawl.NewStatus[order]()
}

func TestCustomStatusIsAvailableAtOnceAndAfterTheEnd(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	if _, err := CustomStatus(soon(t), c, progress, "a-1"); !errors.Is(err, ErrNoStatus) {
		t.Fatal(err)
	}
	if _, err := CustomStatus(soon(t), c, progress, "absent"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	w.setStatus("a-1", statusOf(t, progress, 3, 30))
	for range 2 {
		at, err := CustomStatus(soon(t), c, progress, "a-1")
		if err != nil || at.Version != 3 || at.Value.N != 30 {
			t.Fatal(at, err)
		}
		w.finish("a-1", result(t, "done"))
	}
	w.mu.Lock()
	if n := len(w.watch); n > 0 {
		t.Errorf("%d waiters for a status that was only read", n)
	}
	w.mu.Unlock()
}

func TestEndedInstanceWithoutStatusIsErrNoStatus(t *testing.T) {
	w, c, progress := running(t, Options{})
	w.finish("a-1", result(t, "done"))
	if _, err := CustomStatus(soon(t), c, progress, "a-1"); !errors.Is(err, ErrNoStatus) {
		t.Fatal(err)
	}
}

func TestNextStatusIsPushed(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	w.setStatus("a-1", statusOf(t, progress, 1, 10))
	if at, err := NextStatus(soon(t), c, progress, "a-1", 0); err != nil || at.Version != 1 || at.Value.N != 10 { // it exists already
		t.Fatal(at, err)
	}
	got := make(chan StatusAt[order], 1)
	go func() {
		at, err := NextStatus(soon(t), c, progress, "a-1", 1)
		if err != nil {
			t.Error(err)
		}
		got <- at
	}()
	w.watched("a-1", 1)
	w.setStatus("a-1", statusOf(t, progress, 4, 40))
	if at := <-got; at.Version != 4 || at.Value.N != 40 {
		t.Fatal(at)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 1 { // that of the start
		t.Errorf("%d waiters are left", len(c.waiting))
	}
}

func TestClearedStatusIsPushedWithoutAValue(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	got := make(chan StatusAt[order], 1)
	go func() {
		at, err := NextStatus(soon(t), c, progress, "a-1", 0)
		if err != nil {
			t.Error(err)
		}
		got <- at
	}()
	w.watched("a-1", 1)
	cleared := request.CustomStatus{Version: 2, Cleared: true}
	w.setStatus("a-1", cleared)
	if at := <-got; at != (StatusAt[order]{Version: 2, Cleared: true}) {
		t.Error(at)
	}
	if at, err := CustomStatus(soon(t), c, progress, "a-1"); err != nil || !at.Cleared || at.Version != 2 {
		t.Error(at, err)
	}
}

func TestLostStatusIsRequestedAgain(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: 20 * time.Millisecond})
	w.mute = true
	got := make(chan error, 1)
	go func() { _, err := NextStatus(soon(t), c, progress, "a-1", 0); got <- err }()
	w.watched("a-1", 1)
	w.setStatus("a-1", statusOf(t, progress, 1, 1))
	ok(t, <-got)
}

func TestOlderStatusThatIsPushedIsIgnored(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: 20 * time.Millisecond})
	got := make(chan StatusAt[order], 1)
	go func() {
		at, err := NextStatus(soon(t), c, progress, "a-1", 5)
		if err != nil {
			t.Error(err)
		}
		got <- at
	}()
	w.watched("a-1", 1)
	w.setStatus("a-1", statusOf(t, progress, 4, 40)) // Redis has lost the fifth version
	w.watched("a-1", 1)
	w.setStatus("a-1", statusOf(t, progress, 6, 60))
	if at := <-got; at.Version != 6 {
		t.Fatal(at)
	}
}

func TestWaitForAStatusOfAnEndedInstanceEnds(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	got := make(chan error, 1)
	go func() { _, err := NextStatus(soon(t), c, progress, "a-1", 0); got <- err }()
	w.watched("a-1", 1)
	w.finish("a-1", request.Answer{Status: "failed", Failure: &history.Failure{Message: "no"}})
	var ended *EndedError
	if err := <-got; !errors.Is(err, ErrEnded) || !errors.As(err, &ended) || ended.Instance != "a-1" || ended.Status != Failed {
		t.Fatal(err)
	}
}

func TestWatchReturnsEveryStatusUntilTheInstanceEnds(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	w.setStatus("a-1", statusOf(t, progress, 1, 10))
	var versions []uint64
	for at, err := range WatchStatus(soon(t), c, progress, "a-1") {
		ok(t, err)
		if at.Value.N != int(at.Version)*10 {
			t.Fatal(at)
		}
		versions = append(versions, at.Version)
		switch at.Version {
		case 1:
			w.setStatus("a-1", statusOf(t, progress, 2, 20))
		case 2: // two at once: the first one is skipped
			w.setStatus("a-1", statusOf(t, progress, 3, 30))
			w.setStatus("a-1", statusOf(t, progress, 4, 40))
		case 4: // the last status and the end
			w.setStatus("a-1", statusOf(t, progress, 5, 50))
			w.finish("a-1", result(t, "done"))
		}
	}
	if !slices.Equal(versions, []uint64{1, 2, 4, 5}) {
		t.Fatal(versions)
	}
	for at, err := range WatchStatus(soon(t), c, progress, "a-1") {
		if err != nil || at.Version != 5 {
			t.Fatal(at, err)
		}
		break
	}
}

func TestStatusOfAnotherTypeIsUndecodableWithItsVersion(t *testing.T) {
	w, c, progress := running(t, Options{RepeatInterval: time.Hour})
	w.setStatus("a-1", request.CustomStatus{Version: 2, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"text"`)}})
	n := 0
	for at, err := range WatchStatus(soon(t), c, progress, "a-1") {
		if n++; n > 1 || !errors.Is(err, pawl.ErrUndecodable) || at.Version != 2 {
			t.Fatal(at, err)
		}
	}
	if at, err := CustomStatus(soon(t), c, progress, "a-1"); !errors.Is(err, pawl.ErrUndecodable) || at.Version != 2 {
		t.Fatal(at, err)
	}
}

func TestNextStatusWaitsForAStartThatHasNotBeenIngested(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour, OwnerTimeout: time.Minute})
	progress := pawl.NewStatus[order]()
	got := make(chan error, 1)
	go func() { _, err := NextStatus(soon(t), c, progress, "late", 0); got <- err }()
	poll.Until(t, time.Minute, "an unanswered request", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.unknownRequests > 0
	})
	_, err := c.StartRaw(soon(t), "x", "late", history.Payload{})
	ok(t, err)
	w.watched("late", 1)
	w.setStatus("late", statusOf(t, progress, 1, 1))
	ok(t, <-got)
}

func TestWaitForAStatusOfAnUnknownIDEndsAfterATimeout(t *testing.T) {
	_, c := startOwner(t, Options{RepeatInterval: time.Hour, OwnerTimeout: 50 * time.Millisecond})
	if _, err := NextStatus(soon(t), c, pawl.NewStatus[order](), "absent", 0); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := NextStatus(soon(t), c, pawl.NewStatus[order](), "a,b", 0); !errors.Is(err, pawl.ErrBadID) {
		t.Fatal(err)
	}
	if _, err := CustomStatus(soon(t), c, pawl.NewStatus[order](), "a,b"); !errors.Is(err, pawl.ErrBadID) {
		t.Fatal(err)
	}
}

func TestWaitingForAStatusEndsWithItsContextAndWithTheClient(t *testing.T) {
	w, c, progress := running(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	wait := func(ctx context.Context) { _, err := NextStatus(ctx, c, progress, "a-1", 0); got <- err }
	go wait(ctx)
	w.watched("a-1", 1)
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go wait(context.Background())
	w.watched("a-1", 2)
	c.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
