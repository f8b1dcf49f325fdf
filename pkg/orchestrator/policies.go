package orchestrator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
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
	reading sync.Mutex // so that an older answer does not stand above a newer one
	actors  *actors    // are told of a change
}

func newPolicies(gates *limiter.Limiter, conn *queue.Conn, log *slog.Logger, as *actors) *policies {
	p := &policies{gates: gates, conn: conn, log: log, noticed: make(chan struct{}, 1), actors: as}
	p.latest.Store(&limiter.Overrides{})
	return p
}

// now is the latest that was read.
func (p *policies) now() *limiter.Overrides { return p.latest.Load() }

// read reads them anew, and tells the actors if they have changed.
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
	p.actors.each(func(a *actor) { a.box.post(a.lookAtGates) })
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
