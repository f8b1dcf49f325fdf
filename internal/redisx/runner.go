package redisx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is one thing to ask of Redis: a script, or (Script nil) a plain command.
type Call struct {
	Script *Script
	Keys   []string // of a script; the first one says which node is meant
	Args   []any    // of a script; or the whole command, its key at place 1
}

// Command makes a plain command, such as Command("LRANGE", key, 0, -1).
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

// size is about how many bytes the call sends.
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

// Refused reports whether Redis understood the call and will refuse it again as it is: a key of
// another type, a script's own error. What passes by itself (loading, out of memory, a replica,
// a cluster that moves) and what never reached Redis is not.
func Refused(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return false
	}
	m := reply.Error()
	for _, passing := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "OOM", "MISCONF", "NOSCRIPT", "NOAUTH", "NOPERM", "WRONGPASS", "UNKILLABLE", "NOREPLICAS", "EXECABORT",
	} {
		if strings.HasPrefix(m, passing) {
			return false
		}
	}
	// A script repeats the error of the command that failed in it.
	return !strings.Contains(m, "OOM command not allowed") && !strings.Contains(m, "READONLY") && !strings.Contains(m, "MISCONF")
}

// Done takes the answer of a call: what Redis answered (int64, string, []any or
// nil), or an error. It is called exactly once, on the runner's own goroutine: it
// hands the answer over and returns.
type Done func(reply any, err error)

// ErrClosed answers calls made after Close.
var ErrClosed = errors.New("redis runner is closed")

const (
	maxBatch = 512      // calls in one pipeline
	maxBytes = 16 << 20 // of their arguments: more may not get through before the client gives up, and begins again
	flights  = 2        // pipelines under way at once to one master

	callLimit  = time.Minute     // of one pipeline, with what the client repeats of it
	closeGrace = 2 * time.Second // for the pipelines under way, before nothing of them is repeated any more
)

// Runner sends calls in batches. What is at hand when the connection is free
// travels as one pipeline; nothing ever waits for company. There is one lane to each
// Redis master, so that the loss of one does not hold up the others.
//
// Calls in flight together may be carried out in any order. A call whose reply was
// lost may be carried out twice: every script must bear that. Runner is safe for
// concurrent use.
type Runner struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil unless rdb is one

	mu     sync.Mutex
	lanes  map[redis.Cmdable]*lane
	closed bool
	wg     sync.WaitGroup
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	calls  context.Context //nolint:containedctx // of the calls under way: ends closeGrace later
	abort  context.CancelFunc
}

// NewRunner starts a runner on the client, which stays the caller's to close.
func NewRunner(rdb redis.UniversalClient) *Runner {
	ctx, cancel := context.WithCancel(context.Background())
	calls, abort := context.WithCancel(context.Background())
	r := &Runner{rdb: rdb, lanes: make(map[redis.Cmdable]*lane), ctx: ctx, cancel: cancel, calls: calls, abort: abort}
	r.cluster, _ = rdb.(*redis.ClusterClient)
	return r
}

// Client is the client that the runner sends on.
func (r *Runner) Client() redis.UniversalClient { return r.rdb }

// Go sends the call and returns; done gets the answer.
func (r *Runner) Go(c Call, done Done) {
	l, err := r.lane(c)
	if err != nil {
		done(nil, err)
		return
	}
	l.push(flight{call: c, done: done, size: c.size()})
}

// Do sends the call and waits for the answer or the end of ctx. When ctx ends
// first the call may still be carried out.
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

// Close ends the runner. Calls that are waiting are answered with ErrClosed; those under way are
// waited for. From a Redis that does not answer they are given up after a few seconds: then no attempt is repeated any more.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	grace := time.AfterFunc(closeGrace, r.abort)
	r.wg.Wait()
	grace.Stop()
	r.abort()
}

// lane finds the lane of the master that has the call's key.
func (r *Runner) lane(c Call) (*lane, error) {
	var node redis.Cmdable = r.rdb
	if r.cluster != nil {
		master, err := r.cluster.MasterForKey(r.ctx, c.key())
		if err != nil {
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
		l = &lane{runner: r, node: node, wake: make(chan struct{}, flights)}
		r.lanes[node] = l
		for range flights {
			r.wg.Go(l.run)
		}
	}
	return l, nil
}

type flight struct {
	call Call
	done Done
	size int
	cmd  *redis.Cmd
}

// lane is the way to one master.
type lane struct {
	runner *Runner
	node   redis.Cmdable
	wake   chan struct{}

	mu      sync.Mutex
	waiting []flight
	ended   bool
}

func (l *lane) push(f flight) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		f.done(nil, ErrClosed)
		return
	}
	l.waiting = append(l.waiting, f)
	l.mu.Unlock()
	l.signal()
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take hands out what is at hand, at most maxBatch and maxBytes, but at least one.
func (l *lane) take() []flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < min(len(l.waiting), maxBatch) && (n == 0 || size+l.waiting[n].size <= maxBytes) {
		size += l.waiting[n].size
		n++
	}
	batch := l.waiting[:n:n]
	if n == len(l.waiting) {
		l.waiting = nil
	} else {
		l.waiting = l.waiting[n:]
		l.signal()
	}
	return batch
}

func (l *lane) run() {
	for {
		select {
		case <-l.runner.ctx.Done():
			l.end()
			return
		case <-l.wake:
		}
		if batch := l.take(); len(batch) > 0 {
			l.send(batch)
		}
	}
}

func (l *lane) end() {
	l.mu.Lock()
	left := l.waiting
	l.waiting, l.ended = nil, true
	l.mu.Unlock()
	for _, f := range left {
		f.done(nil, ErrClosed)
	}
}

// send carries out a batch. A master that has forgotten the scripts (restart, fail-over)
// is taught them, and only what failed for that reason is sent again.
func (l *lane) send(batch []flight) {
	missing := l.pipeline(batch, nil)
	if len(missing) > 0 {
		missing = l.pipeline(missing, scriptsOf(missing))
	}
	for _, f := range missing {
		f.done(nil, fmt.Errorf("redis: %s: %w", f.call.name(), f.cmd.Err()))
	}
}

func (l *lane) pipeline(batch []flight, load []*Script) (noScript []flight) {
	// Close lets a batch under way end: its writes may be done already, and the caller should know.
	ctx, stop := context.WithTimeout(l.runner.calls, callLimit)
	defer stop()
	pipe := l.node.Pipeline()
	for _, s := range load {
		pipe.ScriptLoad(ctx, s.source)
	}
	for i := range batch {
		batch[i].cmd = pipe.Do(ctx, batch[i].call.wire()...)
	}
	_, _ = pipe.Exec(ctx) // each command carries its own error
	for _, f := range batch {
		reply, err := f.cmd.Result()
		switch {
		case err == nil:
			f.done(reply, nil)
		case errors.Is(err, redis.Nil):
			f.done(nil, nil)
		case strings.HasPrefix(err.Error(), "NOSCRIPT"):
			noScript = append(noScript, f)
		case l.runner.cluster != nil && isRedirect(err):
			l.runner.redirect(f)
		default:
			f.done(nil, fmt.Errorf("redis: %s: %w", f.call.name(), err))
		}
	}
	return noScript
}

func (c Call) wire() []any {
	if c.Script == nil {
		return c.Args
	}
	args := make([]any, 0, 3+len(c.Keys)+len(c.Args))
	args = append(args, "EVALSHA", c.Script.sha, len(c.Keys))
	for _, k := range c.Keys {
		args = append(args, k)
	}
	return append(args, c.Args...)
}

// redirect lets the cluster client find where the slot has moved; this happens only while a cluster is changed.
func (r *Runner) redirect(f flight) {
	r.wg.Go(func() {
		ctx, stop := context.WithTimeout(r.calls, callLimit)
		defer stop()
		var cmd *redis.Cmd
		if s := f.call.Script; s != nil {
			cmd = r.cluster.Eval(ctx, s.source, f.call.Keys, f.call.Args...)
		} else {
			cmd = r.cluster.Do(ctx, f.call.Args...)
		}
		reply, err := cmd.Result()
		if errors.Is(err, redis.Nil) {
			reply, err = nil, nil
		}
		if err != nil {
			err = fmt.Errorf("redis: %s: %w", f.call.name(), err)
		}
		f.done(reply, err)
	})
}

func isRedirect(err error) bool {
	m := err.Error()
	return strings.HasPrefix(m, "MOVED") || strings.HasPrefix(m, "ASK") || strings.HasPrefix(m, "TRYAGAIN")
}

func scriptsOf(fs []flight) []*Script {
	seen := make(map[*Script]bool)
	var out []*Script
	for _, f := range fs {
		if !seen[f.call.Script] {
			seen[f.call.Script] = true
			out = append(out, f.call.Script)
		}
	}
	return out
}
