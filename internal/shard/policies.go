package shard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// policyEvery is the interval at which the policies set at run time are read, in case the notice of a change was lost.
const policyEvery = time.Second

// policyCache holds the policies set at run time, as this process has last read them. It is safe for concurrent use.
type policyCache struct {
	limits  *limiter.Limiter
	conn    *transport.Conn
	log     *slog.Logger
	latest  atomic.Pointer[limit.Overrides]
	seen    atomic.Uint64 // highest version that was read, or that a limit has applied
	noticed chan struct{}
	reading sync.Mutex // serializes reads, so that an older reply cannot replace a newer one
	shards  *shards    // notified of a change
	global  *history.Policy
}

func newPolicies(limits *limiter.Limiter, conn *transport.Conn, log *slog.Logger, all *shards, global *history.Policy) *policyCache {
	p := &policyCache{limits: limits, conn: conn, log: log, noticed: make(chan struct{}, 1), shards: all, global: global}
	p.latest.Store(&limit.Overrides{})
	return p
}

// now returns the policies that were read last.
func (p *policyCache) now() limit.Policies {
	return limit.Policies{Set: p.latest.Load(), Global: p.global}
}

// read reads the policies, and notifies the shards if they have changed.
func (p *policyCache) read(ctx context.Context) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	seen := p.seen.Load()
	o, err := p.limits.Overrides(ctx)
	if err == nil && o.Version < seen {
		p.log.Warn("change of policies lost by redis", "version", o.Version, "lost", seen)
		if err = p.limits.BumpPolicyVersion(ctx, seen); err == nil {
			o, err = p.limits.Overrides(ctx)
		}
	}
	if err != nil {
		return err
	}
	p.saw(o.Version)
	if o.Version == p.latest.Load().Version {
		return nil
	}
	p.latest.Store(o)
	p.shards.each(func(s *shard) { s.shell.post(core.Message{Kind: core.PoliciesChanged, Body: o}) })
	return nil
}

// saw records that a version exists or has existed.
func (p *policyCache) saw(version uint64) {
	for old := p.seen.Load(); version > old && !p.seen.CompareAndSwap(old, version); old = p.seen.Load() {
	}
}

// changed reads the policies at once, and notifies the other orchestrators.
func (p *policyCache) changed(ctx context.Context) error {
	if err := p.conn.Notify(transport.Notice{Kind: transport.PolicyChanged}); err != nil {
		p.log.Debug("changed policy not announced", "error", err)
	}
	return p.read(ctx)
}

// watch reads the policies every policyEvery, and at each notice, until ctx ends.
func (p *policyCache) watch(ctx context.Context) {
	for {
		reading, stop := context.WithTimeout(ctx, loadTimeout)
		err := p.read(reading)
		stop()
		if err != nil && ctx.Err() == nil {
			logFailure(p.log, "policies not read, keeping known ones", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(timers.Until(policyEvery)):
		case <-p.noticed:
		}
	}
}
