package orchestrator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// policyEvery is how often the policies that are set at run time are read, in case the notice of a change was lost.
const policyEvery = time.Second

// policies are those that were set at run time, as this process knows them. It is safe for concurrent use.
type policies struct {
	gates   *limiter.Limiter
	conn    *queue.Conn
	log     *slog.Logger
	latest  atomic.Pointer[limiter.Overrides]
	seen    atomic.Uint64 // the highest version that was read, or that a gate has
	noticed chan struct{}
	reading sync.Mutex      // so that an older answer does not stand above a newer one
	shards  *shards         // are told of a change
	global  *history.Policy // of Config.Global; nil: none
}

func newPolicies(gates *limiter.Limiter, conn *queue.Conn, log *slog.Logger, all *shards, global *history.Policy) *policies {
	p := &policies{gates: gates, conn: conn, log: log, noticed: make(chan struct{}, 1), shards: all, global: global}
	p.latest.Store(&limiter.Overrides{})
	return p
}

// now is the latest that was read.
func (p *policies) now() *limiter.Overrides { return p.latest.Load() }

// inForce finds the policy for an action; false: it has none. Only what enters anew brings one; all others leave the gate's own.
func (p *policies) inForce(action string, d history.Declared) (limiter.InForce, bool) {
	if len(p.now().Policies) == 0 && p.global == nil && d == (history.Declared{}) { // as most
		return limiter.InForce{}, false
	}
	return p.resolve(action, d)
}

// resolve gives the policy that is in force now; one that limits nothing, if there is none.
func (p *policies) resolve(action string, d history.Declared) (limiter.InForce, bool) {
	o := p.now()
	f, ok := o.Resolve(action, d, p.global)
	f.Version, f.Declared = o.Version+1, d // 0 is for what has none
	if !ok {
		f.Level = "none"
	}
	return f, ok
}

// newer is the policy in force for a gate, if it is newer than that version of it.
func (p *policies) newer(gate string, version uint64, d history.Declared) *limiter.InForce {
	if version > p.now().Version {
		return nil
	}
	f, _ := p.resolve(limiter.Action(gate), d) // none: nothing is limited any more
	return &f
}

// read reads them anew, and tells the shards if they have changed.
func (p *policies) read(ctx context.Context) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	seen := p.seen.Load()
	o, err := p.gates.Overrides(ctx)
	if err == nil && o.Version < seen {
		p.log.Warn("Redis has forgotten a change of the policies; those that it has are in force again", "version", o.Version, "forgotten", seen)
		if err = p.gates.BumpPolicyVersion(ctx, seen); err == nil {
			o, err = p.gates.Overrides(ctx)
		}
	}
	if err != nil {
		return err
	}
	p.saw(o.Version)
	if o.Version == p.now().Version {
		return nil
	}
	p.latest.Store(o)
	p.shards.each(func(s *shard) { s.post(message{kind: policiesChanged}) })
	return nil
}

// saw notes a version that there is or was.
func (p *policies) saw(version uint64) {
	for old := p.seen.Load(); version > old && !p.seen.CompareAndSwap(old, version); old = p.seen.Load() {
	}
}

// changed reads them at once, and tells the other orchestrators to.
func (p *policies) changed(ctx context.Context) error {
	if err := p.conn.Notify(queue.Notice{Kind: queue.PolicyChanged}); err != nil {
		p.log.Debug("the others could not be told of a policy; they read it within a second", "error", err)
	}
	return p.read(ctx)
}

// notice has them read soon: somebody has changed them.
func (p *policies) notice() {
	select {
	case p.noticed <- struct{}{}:
	default:
	}
}

// watch reads them until ctx ends.
func (p *policies) watch(ctx context.Context) {
	tick := time.NewTicker(policyEvery)
	defer tick.Stop()
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
		case <-tick.C:
		case <-p.noticed:
		}
	}
}
