package limiter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Sweep repairs a limit: it applies the policy unless its version is older than that of the limit (nil: no policy), rejects waiters that
// have exceeded the maximum wait, and admits waiters while there is room, at most a thousand of each. It does not create a limit.
func (g *Limiter) Sweep(name string, f *limit.InForce, then func(limit.SweepReply, error)) {
	if f == nil {
		f = &limit.InForce{}
	}
	args, err := policyArgs(*f, name)
	if err != nil {
		then(limit.SweepReply{}, err)
		return
	}
	g.run.Go(redisx.Call{Script: g.script.sweep, Keys: g.keys(name), Args: args}, func(reply any, err error) {
		var s limit.SweepReply
		if err == nil {
			s, err = readSwept(reply)
		}
		if err != nil {
			then(limit.SweepReply{}, fmt.Errorf("limit %s: %w", name, err))
			return
		}
		then(s, nil)
	})
}

func readSwept(reply any) (s limit.SweepReply, err error) {
	r := redisx.NewReply(reply)
	s.Now, s.Waiting, s.Holding, s.LimitedUntil, s.Next = r.Int(0), int(r.Int(1)), int(r.Int(2)), r.Int(3), r.Int(4)
	s.Deadlocked, s.IdleFor, s.More = r.Str(5) == "1", time.Duration(r.Int(6))*time.Millisecond, r.Str(7) == "1"
	version, declared := r.Str(8), r.Str(9)
	granted, rejected, stale := r.Strs(10), r.Strs(11), r.Strs(12)
	if err = r.Err(); err != nil {
		return s, err
	}
	if s.Version, err = strconv.ParseUint(version, 10, 64); err != nil {
		return s, fmt.Errorf("version of the policy: %w", err)
	}
	if s.Declared, err = eventcodec.DecodeDeclared([]byte(declared)); err != nil {
		return s, err
	}
	if s.Granted, err = members(granted); err != nil {
		return s, err
	}
	if s.Stale, err = members(stale); err != nil {
		return s, err
	}
	for _, text := range rejected {
		m, err := limit.ParseMember(text[min(1, len(text)):])
		if err != nil {
			return s, err
		}
		s.Rejected = append(s.Rejected, limit.Rejection{Member: m, Cleared: strings.HasPrefix(text, "c")})
	}
	return s, nil
}

// Clear rejects all present waiters and returns their number. It schedules a sweep, which notifies their owners. If it fails, some
// waiters may have been rejected.
func (g *Limiter) Clear(ctx context.Context, name string) (n int, err error) {
	for last, more := "", true; more; {
		v, err := g.run.Do(ctx, redisx.Call{Script: g.script.clear, Keys: g.keys(name), Args: []any{last}})
		if err != nil {
			return n, fmt.Errorf("limit %s: clear: %w", name, err)
		}
		r := redisx.NewReply(v)
		n += int(r.Int(0))
		last, more = r.Str(1), r.Str(2) == "1"
		if r.Err() != nil {
			return n, r.Err()
		}
	}
	if n == 0 {
		return 0, nil
	}
	scheduled := make(chan error, 1)
	g.schedule(name, func(err error) { scheduled <- err })
	select {
	case err = <-scheduled:
		return n, err
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}
