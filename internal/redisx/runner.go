package redisx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/outage"
)

// Call is a call of a script, or (Script nil) a plain command.
type Call struct {
	Script *Script
	Keys   []string      // of a script; the first one selects the node
	Args   []any         // of a script; or the whole command, its key at place 1
	Within time.Duration // maximum time of repetitions while the node is unavailable; default and maximum 3 s
	Join   bool          // may be carried out in one script with other calls of it; see Runner
}

// Command returns a plain command, such as Command("LRANGE", key, 0, -1).
func Command(args ...any) Call { return Call{Args: args} }

func (c Call) name() string {
	if c.Script != nil {
		return c.Script.name
	}
	return fmt.Sprint(c.Args[0])
}

func (c Call) key() string {
	if c.Script != nil {
		return c.Keys[0]
	}
	if len(c.Args) > 1 {
		if k, ok := c.Args[1].(string); ok {
			return k
		}
	}
	return ""
}

// size returns about how many bytes the call sends.
func (c Call) size() int {
	n := 0
	for _, k := range c.Keys {
		n += len(k)
	}
	for _, a := range c.Args {
		switch a := a.(type) {
		case []byte:
			n += len(a)
		case string:
			n += len(a)
		}
	}
	return n
}

// Done receives the reply to a call (int64, string, []any or nil), or an error. It is called exactly once, on the runner's own
// goroutine, and must not block.
type Done func(reply any, err error)

// ErrClosed is the error of calls made after Close.
var ErrClosed = errors.New("redis runner is closed")

const (
	maxBatch    = 512      // calls in one pipeline
	maxBytes    = 16 << 20 // of their arguments: more may exceed the call timeout
	maxInFlight = 2        // outstanding pipelines of one node

	closeGrace = 2 * time.Second // for outstanding pipelines, before repetitions end

	// callTimeout bounds a pipeline: the wait for a connection, the write, the read, and the client's repetitions. It also bounds
	// how long a call is repeated before its error is returned.
	callTimeout = 3 * time.Second

	minBackoff = 20 * time.Millisecond // before a refused call is repeated; it doubles
	maxBackoff = 250 * time.Millisecond
)

// Runner sends calls in batches. The calls that are pending when the connection is free travel as one pipeline; no call waits for
// others. Each node has a lane, so that the loss of one does not delay the others.
//
// # Lanes
//
//	          Go                     reply
//	caller ───────▶ lane, up ───────────────────────▶ caller
//	                 │    ▲
//	        no reply │    │ PING is answered
//	                 ▼    │
//	               lane, down ──────────────────────▶ caller: the error, after callTimeout
//	                 │ the slot has another master
//	                 ▼
//	               the lane of that master
//
// An error that is no reply (refused or lost connection, timeout) takes the lane of its node down. A lane that is down sends
// nothing but PING, has the cluster's slot map reloaded, and moves its calls to the lanes of the masters that now have their
// slots. A transient reply (LOADING, READONLY, MASTERDOWN, CLUSTERDOWN…) delays its own call and leaves the lane alone. The
// client itself reloads its slot map only after a redirect, and once a minute.
//
// A call is repeated for at most callTimeout, or for Call.Within; then its caller gets the last error, and decides. So a node
// that hangs costs one call timeout, a master that is replaced costs the time until the election and one reload, whatever the
// timeouts, retries and redirects of the user's client.
//
// Of the calls that are pending together, those of a script that set Call.Join travel as one command, an array: the node pays for the
// command once. Each has its own reply, or its own error. A script may set Join unless it must be refused while Redis is out of memory
// and others of it may be carried out: behind a write of the array nothing is refused any more.
//
// Concurrent calls may be carried out in any order. A call whose reply was lost may be carried out twice: every script must
// tolerate it. Runner is safe for concurrent use.
type Runner struct {
	rdb   redis.UniversalClient
	slots *slotMap // nil unless the client is of a cluster

	outage  *outage.Reporter                      // may be nil
	timed   func(took time.Duration, failed bool) // may be nil
	divided atomic.Bool                           // arrays have keys of one slot only, although the client is of no cluster

	mu     sync.Mutex
	lanes  map[redis.Cmdable]*lane // by the client's own client of the node
	closed bool
	wg     sync.WaitGroup
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	calls  context.Context //nolint:containedctx // of outstanding calls: ends closeGrace later
	abort  context.CancelFunc
}

// NewRunner starts a runner on the client, which stays the caller's to close.
func NewRunner(rdb redis.UniversalClient) *Runner {
	ctx, cancel := context.WithCancel(context.Background())
	calls, abort := context.WithCancel(context.Background())
	r := &Runner{rdb: rdb, lanes: make(map[redis.Cmdable]*lane), ctx: ctx, cancel: cancel, calls: calls, abort: abort}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		r.slots = newSlotMap(cluster)
	}
	return r
}

// ReportTo sets the reporter of successes and failures. It is called before the first call.
func (r *Runner) ReportTo(o *outage.Reporter) *Runner {
	r.outage = o
	return r
}

// Time sets a function that receives the duration of every pipeline, and whether the node did not reply. It is called before the
// first call; the function must not block.
func (r *Runner) Time(timed func(took time.Duration, failed bool)) *Runner {
	r.timed = timed
	return r
}

// took reports the duration of a pipeline.
func (r *Runner) took(d time.Duration, failed bool) {
	if r.timed != nil {
		r.timed(d, failed)
	}
}

// observe reports the outcome of an operation.
func (r *Runner) observe(operation string, err error) {
	switch {
	case err == nil:
		r.outage.Succeeded(outage.Redis)
	case Unavailable(err):
		if r.ctx.Err() == nil {
			r.outage.Failed(outage.Redis, operation, err)
		}
	case isReply(err):
		r.outage.Succeeded(outage.Redis)
	}
}

// Client returns the client that the runner sends on.
func (r *Runner) Client() redis.UniversalClient { return r.rdb }

// Node identifies the node that has the key at this moment, for comparison. It is nil if the node is unknown.
func (r *Runner) Node(key string) any {
	l, err := r.lane(Command("", key))
	if err != nil {
		return nil
	}
	return l.client
}

// Go sends the call and returns; done receives the reply.
func (r *Runner) Go(c Call, done Done) {
	if c.Script != nil {
		if err := c.Script.check(c.Keys, c.Args); err != nil {
			done(nil, err)
			return
		}
	}
	within := callTimeout
	if c.Within > 0 {
		within = min(within, c.Within)
	}
	r.dispatch(flight{call: c, done: done, size: c.size(), until: time.Now().Add(within)})
}

// Do sends the call and waits for the reply or the end of ctx. If ctx ends first the call may still be carried out.
func (r *Runner) Do(ctx context.Context, c Call) (any, error) {
	type answer struct {
		reply any
		err   error
	}
	ch := make(chan answer, 1)
	r.Go(c, func(reply any, err error) { ch <- answer{reply, err} })
	select {
	case a := <-ch:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the runner. It answers waiting calls with ErrClosed and waits for outstanding ones. A Redis that does not reply
// delays it by a few seconds: then no call is repeated any more.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	grace := time.AfterFunc(closeGrace, r.abort)
	r.wg.Wait()
	grace.Stop()
	r.abort()
	if r.slots != nil {
		r.slots.close()
	}
}

// flight is a call in the runner.
type flight struct {
	call  Call
	done  Done
	size  int
	until time.Time // repeated until then
	tries int       // transient replies so far
}

func (f flight) fail(err error) { f.done(nil, fmt.Errorf("redis: %s: %w", f.call.name(), err)) }

// dispatch puts a call into the lane of the master that has its key.
func (r *Runner) dispatch(f flight) {
	l, err := r.lane(f.call)
	if err != nil {
		f.done(nil, err)
		return
	}
	l.push(f)
}

// lane returns the lane of the master that has the call's key.
func (r *Runner) lane(c Call) (*lane, error) {
	var node redis.Cmdable = r.rdb
	if r.slots != nil {
		master, err := r.slots.cluster.MasterForKey(r.ctx, c.key())
		if err != nil {
			r.observe(c.name(), err)
			return nil, fmt.Errorf("redis: find the master for %s: %w", c.key(), err)
		}
		node = master
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	l, ok := r.lanes[node]
	if !ok {
		l = newLane(r, node)
		r.lanes[node] = l
	}
	return l, nil
}

// later repeats calls after transient replies.
func (r *Runner) later(fs []flight) {
	pause := minBackoff
	for i := range fs {
		pause = max(pause, min(minBackoff<<fs[i].tries, maxBackoff))
		fs[i].tries = min(fs[i].tries+1, 8)
	}
	ended := !r.start(func() {
		if !outage.Pause(r.ctx, pause) {
			answerAll(fs, ErrClosed)
			return
		}
		r.reload()
		for _, f := range fs {
			r.dispatch(f)
		}
	})
	if ended {
		answerAll(fs, ErrClosed)
	}
}

// start runs f on a goroutine that Close joins. It reports false when Close has begun.
func (r *Runner) start(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.wg.Go(f)
	}
	return !r.closed
}

// reload has the slot map reloaded and waits briefly for it.
func (r *Runner) reload() {
	if r.slots != nil {
		r.slots.reload(r.ctx)
	}
}

// redirect lets the cluster client find the new place of the slot; this happens only while a cluster is changed. The client's own
// timeouts and retries do not delay the caller.
func (r *Runner) redirect(f flight) {
	type answer struct {
		reply any
		err   error
	}
	answered := make(chan answer, 1)
	ctx, stop := context.WithTimeout(r.calls, callTimeout)
	try := func() {
		var cmd *redis.Cmd
		if s := f.call.Script; s != nil {
			cmd = r.slots.cluster.Eval(ctx, s.one.source, f.call.Keys, s.send(nil, f.call.Args)...)
		} else {
			cmd = r.slots.cluster.Do(ctx, f.call.Args...)
		}
		reply, err := cmd.Result()
		if errors.Is(err, redis.Nil) {
			reply, err = nil, nil
		}
		answered <- answer{reply, err}
	}
	take := func() {
		defer stop()
		select {
		case a := <-answered:
			if a.err != nil {
				f.fail(a.err)
				return
			}
			f.done(a.reply, nil)
		case <-ctx.Done():
			f.fail(fmt.Errorf("redirected: %w", context.Cause(ctx)))
		}
	}
	if !r.start(try) || !r.start(take) {
		stop()
		f.done(nil, ErrClosed)
	}
}

func answerAll(fs []flight, err error) {
	for _, f := range fs {
		f.done(nil, err)
	}
}
