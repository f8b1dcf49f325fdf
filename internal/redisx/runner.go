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

// Call is a call of a script or, if Script is nil, a plain command.
type Call struct {
	Script *Script
	Keys   []string      // keys of the script; the first one selects the node
	Args   []any         // arguments of the script; or the whole command, with its key at index 1
	Within time.Duration // time for which the call is repeated while the node is unavailable; default and maximum 3 s
	Join   bool          // may be executed together with other calls of the script; see Runner
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

// size returns the approximate number of bytes that the call sends.
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

// Done receives the reply to a call (int64, string, []any or nil), or an error. It is called exactly once, on the runner's goroutine, and
// must not block.
type Done func(reply any, err error)

// ErrClosed is the error of calls made after Close.
var ErrClosed = errors.New("redis runner is closed")

const (
	maxBatch    = 512      // maximum number of calls in a pipeline
	maxBytes    = 16 << 20 // maximum size of their arguments; more may exceed the call timeout
	maxInFlight = 2        // maximum number of outstanding pipelines per node

	closeGrace = 2 * time.Second // for which Close waits for outstanding pipelines before it cancels them

	// callTimeout is the timeout of a pipeline: waiting for a connection, writing, reading, and the retries of the client. It is also the
	// maximum time for which a call is repeated before its error is returned.
	callTimeout = 3 * time.Second

	minBackoff = 20 * time.Millisecond // backoff before a refused call is repeated; it doubles
	maxBackoff = 250 * time.Millisecond
)

// Runner sends calls in batches. The calls that are pending when a connection becomes free are sent as one pipeline, without waiting for
// further calls. Each node has its own lane, so that the loss of one node does not delay calls to the others.
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
// An error that is not a reply (a refused or lost connection, a timeout) takes the lane of the node down. A lane that is down sends only
// PING, reloads the slot map of the cluster, and moves its calls to the lanes of the masters that now have their slots. A transient reply
// (LOADING, READONLY, MASTERDOWN, CLUSTERDOWN…) delays only its own call. The client itself reloads its slot map only after a redirect,
// and once a minute.
//
// A call is repeated for at most callTimeout, or Call.Within; then its caller receives the last error and decides. So a node that hangs
// costs one call timeout, and the replacement of a master costs the time until the election and one reload, regardless of the timeouts,
// retries and redirects configured for the user's client.
//
// Pending calls of the same script that set Call.Join are sent as one command, an array, whose fixed cost the node pays only once. Each
// call has its own reply or error. A script must not set Join if it has to be refused while Redis is out of memory and other scripts of
// the array may write: after the first write of an array, Redis refuses nothing.
//
// Concurrent calls may be executed in any order. A call whose reply was lost may be executed twice, and every script must tolerate that.
// A Runner is safe for concurrent use.
type Runner struct {
	rdb   redis.UniversalClient
	slots *slotMap // nil unless the client is of a cluster

	outage  *outage.Reporter                      // may be nil
	timed   func(took time.Duration, failed bool) // may be nil
	divided atomic.Bool                           // arrays are limited to keys of one slot, although the client is not a cluster client

	mu     sync.Mutex
	lanes  map[redis.Cmdable]*lane // by the client of the node
	closed bool
	wg     sync.WaitGroup
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	calls  context.Context //nolint:containedctx // of outstanding calls; ends closeGrace after ctx
	abort  context.CancelFunc
}

// NewRunner starts a runner that uses the client, which the caller closes.
func NewRunner(rdb redis.UniversalClient) *Runner {
	ctx, cancel := context.WithCancel(context.Background())
	calls, abort := context.WithCancel(context.Background())
	r := &Runner{rdb: rdb, lanes: make(map[redis.Cmdable]*lane), ctx: ctx, cancel: cancel, calls: calls, abort: abort}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		r.slots = newSlotMap(cluster)
	}
	return r
}

// ReportTo sets the reporter of successes and failures. It must be called before the first call.
func (r *Runner) ReportTo(o *outage.Reporter) *Runner {
	r.outage = o
	return r
}

// Time sets a function that receives the duration of every pipeline, and whether the node failed to reply. It must be called before the
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

// Client returns the client that the runner uses.
func (r *Runner) Client() redis.UniversalClient { return r.rdb }

// Node returns a value that identifies the node that has the key now, for comparison; nil if the node is unknown.
func (r *Runner) Node(key string) any {
	l, err := r.lane(Command("", key))
	if err != nil {
		return nil
	}
	return l.client
}

// Go sends the call and returns at once; done receives the reply.
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

// answer is the outcome of a call.
type answer struct {
	reply any
	err   error
}

// Do sends the call and waits for its reply or the end of ctx. If ctx ends first, the call may still take effect.
func (r *Runner) Do(ctx context.Context, c Call) (any, error) {
	ch := make(chan answer, 1)
	r.Go(c, func(reply any, err error) { ch <- answer{reply, err} })
	select {
	case a := <-ch:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close closes the runner. Waiting calls fail with ErrClosed; outstanding ones are awaited. If Redis does not reply, Close takes a few
// seconds; calls are no longer repeated.
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
	until time.Time // end of its repetitions
	tries int       // number of transient replies so far
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

// later repeats calls after a backoff.
func (r *Runner) later(fs []flight) {
	backoff := minBackoff
	for i := range fs {
		backoff = max(backoff, min(minBackoff<<fs[i].tries, maxBackoff))
		fs[i].tries = min(fs[i].tries+1, 8)
	}
	started := r.start(func() {
		if !outage.Sleep(r.ctx, backoff) {
			answerAll(fs, ErrClosed)
			return
		}
		r.reload()
		for _, f := range fs {
			r.dispatch(f)
		}
	})
	if !started {
		answerAll(fs, ErrClosed)
	}
}

// start runs f on a goroutine that Close joins. It returns false if the runner is closed.
func (r *Runner) start(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.wg.Go(f)
	}
	return !r.closed
}

// reload reloads the slot map, and waits briefly for it.
func (r *Runner) reload() {
	if r.slots != nil {
		r.slots.reload(r.ctx)
	}
}

// redirect executes a call through the cluster client, which follows the redirect to the new node of the slot. This happens only while a
// cluster is resharded. The client's own timeouts and retries do not delay the caller.
func (r *Runner) redirect(f flight) {
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
