package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// begin starts an instance with the n-th input, and ends it unless runs is set.
func begin(t *testing.T, w *owner, c *Client, n int, id string, runs bool) {
	t.Helper()
	_, err := c.StartRaw(soon(t), "x", id, history.Payload{})
	ok(t, err)
	w.input(n)
	if !runs {
		w.finish(id, request.Answer{Status: "completed"})
	}
}

// mute makes the owner push no answers.
func mute(w *owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = true
}

func TestPurgeCarriesRequesterAndReasonAndEndsWithTheInstance(t *testing.T) {
	w, c := startOwner(t, Options{By: "me", RepeatInterval: time.Hour})
	begin(t, w, c, 0, "a", false)
	ok(t, c.Purge(soon(t), "a", Reason("tidy"), By("ops"), MessageID("m-1")))
	if in := w.input(1); in.Kind != message.KindPurge || in.By != "ops" || in.Text != "tidy" || in.ID != "m-1" || in.Force || in.Reply == "" {
		t.Errorf("%+v", in)
	}
	if _, err := c.Describe(soon(t), "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the purge: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.waiting); n > 1 { // that of the start
		t.Errorf("%d waiters are left", n)
	}
}

func TestRunningInstanceIsPurgedOnlyByForce(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	begin(t, w, c, 0, "a", true)
	err := c.Purge(soon(t), "a")
	var running *RunningError
	if !errors.Is(err, ErrRunning) || !errors.Is(err, ErrRefused) || !errors.As(err, &running) || running.Instance != "a" {
		t.Fatal(err)
	}
	if strings.Count(err.Error(), "instance a") != 1 {
		t.Errorf("want the instance named once: %v", err)
	}
	ok(t, c.Purge(soon(t), "a", Force()))
	if in := w.input(2); !in.Force {
		t.Errorf("%+v", in)
	}
}

func TestPurgeOfAnUnknownIDIsNotFound(t *testing.T) {
	_, c := startOwner(t, Options{RepeatInterval: time.Hour})
	if err := c.Purge(soon(t), "absent"); !errors.Is(err, ErrNotFound) || err.Error() != "client: there is no instance absent" {
		t.Fatal(err)
	}
}

func TestPurgeWithALostReplyIsDetected(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: 20 * time.Millisecond})
	begin(t, w, c, 0, "ended", false)
	begin(t, w, c, 1, "runs", true)
	mute(w)
	ok(t, c.Purge(soon(t), "ended"))
	if err := c.Purge(soon(t), "runs"); !errors.Is(err, ErrRunning) {
		t.Errorf("rejected: %v", err)
	}
	ok(t, c.Purge(soon(t), "runs", Force()))
}

func TestRequestThatIsNotAppliedYetIsNotAnsweredByTheStateBefore(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: 10 * time.Millisecond})
	begin(t, w, c, 0, "a", true)
	mute(w)
	for name, call := range map[string]func() error{
		"purge": func() error { return c.Purge(soon(t), "a") },
		"pause": func() error { _, err := c.Pause(soon(t), "a"); return err },
	} {
		w.mu.Lock()
		w.stale = 3
		w.mu.Unlock()
		if err := call(); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		w.mu.Lock()
		if w.stale > 0 {
			t.Errorf("%s: rejected although the owner has not applied the input", name)
		}
		w.mu.Unlock()
	}
}

func TestPurgeDoesNotWaitForANewInstanceOfItsID(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	begin(t, w, c, 0, "a", false)
	mute(w)
	c.opts.RepeatInterval = 500 * time.Millisecond // time for the start
	purged := make(chan error, 1)
	go func() { purged <- c.Purge(soon(t), "a") }()
	w.input(1)
	begin(t, w, c, 2, "a", true)
	if err := <-purged; err != nil {
		t.Errorf("purge of an instance that a new one replaces: %v", err)
	}
}

func TestPurgeOfAStalledInstanceReportsIt(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: 20 * time.Millisecond})
	begin(t, w, c, 0, "a", true)
	w.mu.Lock()
	w.rows["a"].Stalled = "unregistered: no owner has it"
	w.mu.Unlock()
	err := c.Purge(soon(t), "a")
	var stalled *StalledError
	if !errors.Is(err, ErrStalled) || !errors.Is(err, ErrPurgePending) || !errors.As(err, &stalled) || !strings.Contains(err.Error(), "no owner has it") {
		t.Fatal(err)
	}
}

func TestAbandonedPurgeIsReportedAsPending(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: 10 * time.Millisecond, OwnerTimeout: 10 * time.Millisecond})
	w.subs[c.conn.PartitionOf("a")].Stop()
	begin(t, w, c, 0, "a", true)
	mute(w)
	for within := 300 * time.Millisecond; ; within *= 2 { // on a busy machine, the stream may not acknowledge the purge within the first
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := c.Purge(ctx, "a")
		cancel()
		// The error depends on whether the server has processed the end of the subscription yet.
		pending := errors.Is(err, ErrPurgePending) && (errors.Is(err, ErrNoOwner) || errors.Is(err, transport.ErrTimeout))
		if !errors.Is(err, context.DeadlineExceeded) || !pending && within > 20*time.Second {
			t.Fatal(err)
		}
		if pending {
			break
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Purge(context.Background(), "a") }()
	w.input(2)
	c.Close()
	// If the client is closed before the stream has acknowledged the purge, its effect is unknown.
	if err := <-ended; !errors.Is(err, transport.ErrClosed) && (!errors.Is(err, ErrClosed) || !errors.Is(err, ErrPurgePending)) {
		t.Fatal(err)
	}
}

func TestPurgeWithoutAcknowledgementIsNotPending(t *testing.T) {
	_, c := startOwner(t, Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Purge(ended, "a"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrPurgePending) {
		t.Error(err)
	}
	if err := c.Purge(soon(t), "a b"); !errors.Is(err, pawl.ErrBadID) || errors.Is(err, ErrPurgePending) {
		t.Error(err)
	}
}

func TestHistoryHasTheReportsOfCancelledActivities(t *testing.T) {
	w, c := startOwner(t, Options{})
	begin(t, w, c, 0, "a", true)
	var events [][]byte
	for _, e := range []history.Event{
		&history.ActivityCancelRequested{Scheduled: 7}, &history.ActivityCancelRequested{Scheduled: 8},
		&history.ActivityCancelRequested{Scheduled: 9}, &history.TimerFired{Timer: 7},
	} {
		b, err := eventcodec.Encode(e)
		ok(t, err)
		events = append(events, b)
	}
	w.mu.Lock()
	w.events["a"] = events
	w.reports = []request.Report{
		{Activity: 7, Text: `{"how":"stopped","after_ms":12,"worker":"w-1","at":1500}`}, {Activity: 8, Text: `{"how":"finished-first"}`}, {Activity: 9, Text: "nonsense"},
	}
	w.mu.Unlock()
	var got []*lease.Report
	for e, err := range c.History(soon(t), "a", 0) {
		ok(t, err)
		got = append(got, e.Report)
	}
	switch {
	case len(got) != 4 || got[0] == nil || got[1] == nil || got[2] != nil || got[3] != nil:
		t.Fatalf("%+v", got)
	case *got[0] != lease.Report{Ending: lease.Stopped, After: 12 * time.Millisecond, Worker: "w-1", At: time.UnixMilli(1500).UTC()}, *got[1] != lease.Report{Ending: lease.FinishedFirst}:
		t.Fatalf("%+v, %+v", got[0], got[1])
	}
}

func TestNotFoundNamesTheRequestedID(t *testing.T) {
	for message, want := range map[string]string{
		"instance a has not begun": "client: instance a has not begun",
		"unknown":                  "client: instance a: unknown",
	} {
		err := about("a", problem(&request.Problem{Code: request.ProblemNotFound, Message: message}))
		if !errors.Is(err, ErrNotFound) || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
}
