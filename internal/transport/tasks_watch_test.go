package transport

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestTasksWatchReportsALossOnce(t *testing.T) {
	c := newHarness(t).open(Options{})
	w := c.WatchTasks(0)
	check := func(lost bool) {
		t.Helper()
		at, err := w.Check(soon(t))
		ok(t, err)
		if at.IsZero() == lost {
			t.Fatalf("lost at %v, want a loss: %v", at, lost)
		}
		if lost && (time.Since(at) < 0 || time.Since(at) > time.Minute) {
			t.Fatalf("lost before %v, now is %v", at, time.Now())
		}
	}
	check(false)
	offer(t, c, "q", 0, 5)
	check(false)

	// Deleted, and recreated by the check itself.
	ok(t, c.js.DeleteStream(soon(t), c.tasks.Name))
	check(true)
	check(false)
	offer(t, c, "q", 0, 2)
	check(false)

	// Deleted, and recreated by another process.
	ok(t, c.js.DeleteStream(soon(t), c.tasks.Name))
	_, err := c.js.CreateStream(soon(t), c.tasks)
	ok(t, err)
	check(true)
	check(false)

	// If all replicas were restarted, the stream keeps its creation time, but no content. A new leader that has not caught up looks the
	// same for a moment.
	offer(t, c, "q", 0, 1)
	c.published(100)
	check(false)
	check(true)
	check(false)
}

func TestTasksWatchIsIdleWhileNothingIsPublishedOrLost(t *testing.T) {
	c := newHarness(t).open(Options{})
	w := c.WatchTasks(0)
	check := func(idle bool, when string) {
		t.Helper()
		if _, err := w.Check(soon(t)); err != nil || w.Idle() != idle {
			t.Fatalf("%s: idle is %v, %v", when, w.Idle(), err)
		}
	}
	offer(t, c, "q", 0, 5)
	check(false, "tasks are published")
	check(true, "none since")
	offer(t, c, "q", 5, 1)
	check(false, "one more")
	check(true, "none since")
	c.published(100)
	check(false, "the stream lacks acknowledged tasks")
}

func TestTasksWatchDetectsARecreatedStream(t *testing.T) {
	c := newHarness(t).open(Options{})
	check := func(lost bool) {
		t.Helper()
		at, err := c.WatchTasks(time.Hour).Check(soon(t))
		ok(t, err)
		if at.IsZero() == lost {
			t.Fatalf("lost at %v, want a loss: %v", at, lost)
		}
	}
	check(false) // the namespace is just as young
	eventually(t, "a younger stream", func() bool {
		ok(t, c.js.DeleteStream(soon(t), c.tasks.Name))
		tasks, err := c.tasksInfo(soon(t))
		ok(t, err)
		inputs, err := c.js.Stream(soon(t), c.inputs.Name)
		ok(t, err)
		return tasks.Created.Sub(inputs.CachedInfo().Created) > maxCreationGap
	})
	check(true)
}

// A stream that has a leader, or lost it recently, is kept; one without a leader for a long time is recreated once.
func TestTasksStreamWithoutLeaderIsCreatedAgain(t *testing.T) {
	c := newHarness(t).open(Options{})
	w := c.WatchTasks(0)
	_, err := w.Check(soon(t))
	ok(t, err)
	offer(t, c, "q", 0, 3)
	info, err := c.tasksInfo(soon(t))
	ok(t, err)
	begun := time.Now()
	for _, step := range []struct {
		after  time.Duration
		leader string
		exists bool
	}{
		{0, "n1", true},
		{time.Second, "", true},
		{leaderlessFor - time.Second, "", true},
		{leaderlessFor, "n2", true}, // a leader is elected
		{leaderlessFor + time.Second, "", true},
		{2 * leaderlessFor, "", true},
		{2*leaderlessFor + time.Second, "", false},
	} {
		info.Cluster = &jetstream.ClusterInfo{Leader: step.leader}
		ok(t, w.elect(soon(t), info, begun.Add(step.after)))
		if _, err := c.js.Stream(soon(t), c.tasks.Name); errors.Is(err, jetstream.ErrStreamNotFound) == step.exists {
			t.Fatalf("after %v, leader %q: %v", step.after, step.leader, err)
		}
	}
	at, err := w.Check(soon(t))
	ok(t, err)
	if at.IsZero() {
		t.Fatal("the loss is not reported")
	}
	offer(t, c, "q", 0, 3)
}
