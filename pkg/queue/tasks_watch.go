package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// madeTogether is within how long of each other the two streams of a new namespace are made.
const madeTogether = time.Second

// leaderlessFor is how long TASKS may have no leader before it is deleted and created again. An election takes a few seconds,
// ten on busy machines. A replicated stream in memory whose servers are restarted faster than they catch up has no leader ever
// after: each waits for one that has what it lost (nats-server 2.15).
const leaderlessFor = 15 * time.Second

// TasksWatch detects that the TASKS stream has lost its content. It is used by one goroutine.
//
//	same stream, its last sequence not behind what it has acknowledged ──▶ nothing was lost
//	another creation time: deleted and made again, by any process      ──▶ lost before it was created
//	last sequence behind, twice in a row: begun again empty            ──▶ lost before now
//	no leader for leaderlessFor, and the cluster answers               ──▶ deleted and made again: lost before now
//
// The second look at a last sequence that is behind is for a new leader, which may for a moment report less than its
// predecessor has acknowledged.
type TasksWatch struct {
	c          *Conn
	recent     time.Duration
	created    time.Time // of the stream as last seen; zero: not seen
	behind     bool      // at the last check
	leaderless time.Time // since when the stream has been seen without a leader; zero: it has one
}

// WatchTasks begins to watch. A stream that is younger than recent at the first check, in a namespace that is older,
// counts as made again: the process that made it need not have told anybody.
func (c *Conn) WatchTasks(recent time.Duration) *TasksWatch { return &TasksWatch{c: c, recent: recent} }

// Check makes the stream again if it is gone, and reports whether tasks were lost since the last check: lost is then
// the time, by this process's clock, before which every task that was published is gone; else it is zero. The error is that
// of JetStream, or of ctx, and means that nothing is known.
func (w *TasksWatch) Check(ctx context.Context) (lost time.Time, err error) {
	published := w.c.taskSeq.Load() // before the stream is asked: it cannot be behind this
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
		if replaced, err = w.c.madeAgain(ctx, info, w.recent); err != nil {
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

// elect deletes a stream that has been without a leader for leaderlessFor: no message in it can be read, and each is repaired
// from history. The leader of the cluster has described it, so a new one can be placed. The next check creates it. Of several
// orchestrators that delete it at the same time, one may delete the new one of another; then that is repaired in turn.
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
	w.c.log.Warn("tasks stream has no leader, creating it again", "stream", w.c.tasks.Name)
	allowed, settle := w.c.whileAllowed(ctx, w.c.apiSubject("STREAM.DELETE."+w.c.tasks.Name))
	if err := settle(w.c.js.DeleteStream(allowed, w.c.tasks.Name)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("queue: delete stream %s: %w", w.c.tasks.Name, w.c.explain(err))
	}
	return nil
}

// madeAgain reports whether TASKS is younger than recent, and INPUTS, with which it was first made, is not as young.
func (c *Conn) madeAgain(ctx context.Context, tasks *jetstream.StreamInfo, recent time.Duration) (bool, error) {
	if tasks.TimeStamp.Sub(tasks.Created) >= recent {
		return false, nil
	}
	s, err := c.js.Stream(ctx, c.inputs.Name)
	if err != nil {
		return false, fmt.Errorf("queue: look at stream %s: %w", c.inputs.Name, c.explain(err))
	}
	return tasks.Created.Sub(s.CachedInfo().Created) > madeTogether, nil
}

// tasksInfo describes the TASKS stream, which is made again if it is gone.
func (c *Conn) tasksInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := c.js.Stream(ctx, c.tasks.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = c.mend(ctx, c.tasks); err == nil {
			s, err = c.js.Stream(ctx, c.tasks.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("queue: look at stream %s: %w", c.tasks.Name, c.explain(err))
	}
	return s.CachedInfo(), nil
}

// published notes the sequence of an acknowledged task.
func (c *Conn) published(seq uint64) {
	for old := c.taskSeq.Load(); seq > old && !c.taskSeq.CompareAndSwap(old, seq); old = c.taskSeq.Load() {
	}
}
