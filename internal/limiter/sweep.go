package limiter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Rejection is a waiter that was rejected.
type Rejection struct {
	Member
	Cleared bool // the waiters were cleared; otherwise it has timed out
}

// SweepReply is the reply to a sweep.
type SweepReply struct {
	Now      int64       // Redis TIME, Unix ms
	Granted  []Member    // admitted by this sweep: their owners must be notified
	Rejected []Rejection // rejected, by this sweep or before, without a notice in the last two seconds: their owners must be notified
	Stale    []Member    // holders not known to be required for two seconds: see FindOrphans

	Waiting, Holding int
	LimitedUntil     int64         // Unix ms; 0: rate and quota allow the next one
	Next             int64         // the next sweep, Unix ms; 0: there are no members
	Deadlocked       bool          // the concurrency is exhausted, and every holder has a waiter among its descendants
	IdleFor          time.Duration // since the last use; 0 unless it is empty
	Declared         history.Declared
	Version          uint64 // of the policy in force
	More             bool   // it has done as much as one sweep does: sweep again now
}

// Sweep repairs a limit: it applies the policy unless its version is older than that of the limit (nil: no policy), rejects
// waiters after the maximum wait, and admits waiters while there is room: at most a thousand each. It does not create a limit.
func (g *Limiter) Sweep(gate string, f *InForce, then func(SweepReply, error)) {
	if f == nil {
		f = &InForce{}
	}
	args, err := f.args(gate)
	if err != nil {
		then(SweepReply{}, err)
		return
	}
	g.run.Go(redisx.Call{Script: g.script.sweep, Keys: g.keys(gate), Args: args}, func(reply any, err error) {
		var s SweepReply
		if err == nil {
			s, err = readSwept(reply)
		}
		if err != nil {
			then(SweepReply{}, fmt.Errorf("limit %s: %w", gate, err))
			return
		}
		then(s, nil)
	})
}

func readSwept(reply any) (s SweepReply, err error) {
	r := redisx.NewReply(reply)
	s.Now, s.Waiting, s.Holding, s.LimitedUntil, s.Next = r.Int(0), int(r.Int(1)), int(r.Int(2)), r.Int(3), r.Int(4)
	s.Deadlocked, s.IdleFor, s.More = r.Str(5) == "1", time.Duration(r.Int(6))*time.Millisecond, r.Str(7) == "1"
	version, declared := r.Str(8), r.Str(9)
	granted, away, stale := r.Strs(10), r.Strs(11), r.Strs(12)
	if err = r.Err(); err != nil {
		return s, err
	}
	if s.Version, err = strconv.ParseUint(version, 10, 64); err != nil {
		return s, fmt.Errorf("version of the policy: %w", err)
	}
	if s.Declared, err = history.DecodeDeclared([]byte(declared)); err != nil {
		return s, err
	}
	if s.Granted, err = members(granted); err != nil {
		return s, err
	}
	if s.Stale, err = members(stale); err != nil {
		return s, err
	}
	for _, text := range away {
		m, err := ParseMember(text[min(1, len(text)):])
		if err != nil {
			return s, err
		}
		s.Rejected = append(s.Rejected, Rejection{Member: m, Cleared: strings.HasPrefix(text, "c")})
	}
	return s, nil
}

// Clear rejects all present waiters, and returns their number; it requests the next sweep, which notifies their owners. If it
// fails, some may have been rejected.
func (g *Limiter) Clear(ctx context.Context, gate string) (n int, err error) {
	for upto, more := "", true; more; {
		v, err := g.run.Do(ctx, redisx.Call{Script: g.script.clear, Keys: g.keys(gate), Args: []any{upto}})
		if err != nil {
			return n, fmt.Errorf("limit %s: clear: %w", gate, err)
		}
		r := redisx.NewReply(v)
		n += int(r.Int(0))
		upto, more = r.Str(1), r.Str(2) == "1"
		if r.Err() != nil {
			return n, r.Err()
		}
	}
	if n == 0 {
		return 0, nil
	}
	listed := make(chan error, 1)
	g.schedule(gate, func(err error) { listed <- err })
	select {
	case err = <-listed:
		return n, err
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}
