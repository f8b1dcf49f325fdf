package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxCreationGap bounds the time between the creations of the two streams of a new namespace.
const maxCreationGap = time.Second

// leaderlessFor is how long TASKS may have no leader before it is deleted and created again. An election takes a few seconds, or ten on
// busy machines. A replicated stream in memory whose servers are restarted faster than they catch up never has a leader again: each
// server waits for one that has the data it lost (nats-server 2.15).
const leaderlessFor = 15 * time.Second

// TasksWatch detects that TASKS has lost its content. It must be used by one goroutine.
//
//	same stream, its last sequence not behind the acknowledged one ──▶ nothing was lost
//	another creation time: deleted and created by any process      ──▶ lost before it was created
//	last sequence behind, twice in a row: restarted empty          ──▶ lost before now
//	no leader for leaderlessFor, and the cluster answers           ──▶ deleted and created again: lost before now
//
// A last sequence that is behind is checked twice, because a new leader may briefly report less than its predecessor acknowledged.
type TasksWatch struct {
	c          *taskStream
	recent     time.Duration
	published  uint64    // acknowledged sequence of this process at the last check
	calm       bool      // published did not change between the last two checks
	created    time.Time // creation time of the stream at the last check; zero: not checked yet
	behind     bool      // the stream was behind at the last check
	leaderless time.Time // time since which the stream has had no leader; zero: it has one
}

// WatchTasks returns a TasksWatch. If the stream is younger than recent at the first check, in a namespace that is older, it counts as
// recreated: the process that recreated it may not have reported the loss.
func (c *taskStream) WatchTasks(recent time.Duration) *TasksWatch {
	return &TasksWatch{c: c, recent: recent}
}

// Check recreates the stream if it is gone, and reports whether tasks were lost since the last check: lost is the time, by this process's
// clock, before which every published task is gone; it is zero if nothing was lost. The error is that of JetStream or of ctx, and means
// that the state is unknown.
func (w *TasksWatch) Check(ctx context.Context) (lost time.Time, err error) {
	published := w.c.taskSeq.Load() // read before the request, so that the stream cannot be behind it
	w.calm, w.published = published == w.published, published
	info, err := w.c.tasksInfo(ctx)
	w.c.observe("watch tasks", err)
	if err != nil {
		return time.Time{}, err
	}
	if err := w.elect(ctx, info, time.Now()); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	age := max(info.TimeStamp.Sub(info.Created), 0) // both by the server's clock
	replaced := !info.Created.Equal(w.created)
	if w.created.IsZero() {
		if replaced, err = w.c.recreated(ctx, info, w.recent); err != nil {
			return time.Time{}, err
		}
	}
	w.created = info.Created
	behind := info.State.LastSeq < published
	switch {
	case replaced:
		w.c.taskSeq.Store(0)
		w.behind = false
		return now.Add(-age), nil
	case behind && w.behind:
		w.c.taskSeq.Store(0)
		w.behind = false
		return now, nil
	default:
		w.behind = behind
		return time.Time{}, nil
	}
}

// Idle reports whether this process published no task between the last two checks, and no loss is suspected: in that case there is little to
// lose, and a loss may be detected later.
func (w *TasksWatch) Idle() bool { return w.calm && !w.behind && w.leaderless.IsZero() }

// elect deletes a stream that has been without a leader for leaderlessFor: none of its messages can be read, and each is repaired from
// history. The leader of the cluster has answered, so a new stream can be placed. The next check creates it. If several orchestrators
// delete the stream at the same time, one may delete the new stream of another; that is repaired in turn.
func (w *TasksWatch) elect(ctx context.Context, info *jetstream.StreamInfo, now time.Time) error {
	switch {
	case info.Cluster == nil || info.Cluster.Leader != "" || !info.Created.Equal(w.created):
		w.leaderless = time.Time{}
		return nil
	case w.leaderless.IsZero():
		w.leaderless = now
	}
	if now.Sub(w.leaderless) < leaderlessFor {
		return nil
	}
	w.leaderless = time.Time{}
	w.c.log.Warn("tasks stream has no leader, creating it again", "stream", w.c.streams.tasks.Name)
	allowed, settle := w.c.whileAllowed(ctx, w.c.streams.apiSubject("STREAM.DELETE."+w.c.streams.tasks.Name))
	if err := settle(w.c.js.DeleteStream(allowed, w.c.streams.tasks.Name)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("queue: delete stream %s: %w", w.c.streams.tasks.Name, w.c.explain(err))
	}
	return nil
}

// recreated reports whether TASKS is younger than recent, although INPUTS, which is created together with it, is not.
func (c *taskStream) recreated(ctx context.Context, tasks *jetstream.StreamInfo, recent time.Duration) (bool, error) {
	if tasks.TimeStamp.Sub(tasks.Created) >= recent {
		return false, nil
	}
	s, err := c.js.Stream(ctx, c.streams.inputs.Name)
	if err != nil {
		return false, fmt.Errorf("queue: read stream %s: %w", c.streams.inputs.Name, c.explain(err))
	}
	return tasks.Created.Sub(s.CachedInfo().Created) > maxCreationGap, nil
}

// tasksInfo returns the state of TASKS, which it recreates if it is gone.
func (c *taskStream) tasksInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := c.js.Stream(ctx, c.streams.tasks.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = c.streams.mend(ctx, c.streams.tasks); err == nil {
			s, err = c.js.Stream(ctx, c.streams.tasks.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("queue: read stream %s: %w", c.streams.tasks.Name, c.explain(err))
	}
	return s.CachedInfo(), nil
}

// published records the sequence of an acknowledged task.
func (c *taskStream) published(seq uint64) {
	for old := c.taskSeq.Load(); seq > old && !c.taskSeq.CompareAndSwap(old, seq); old = c.taskSeq.Load() {
	}
}
