package limiter

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Stats describes a limit. Its counters are numbers since the limit was created; those of a limit with a key are removed an hour after
// its last use. TotalEnqueued = QueueLength + Active + TotalCompleted + TimedOut + Withdrawn + Cleared.
type Stats struct {
	Action           string
	Key              string // empty: none
	QueueLength      int
	Active           int
	MaxConcurrent    int   // 0: unlimited
	OldestEnqueuedAt int64 // Unix ms; 0: no waiters
	TotalEnqueued    uint64
	TotalCompleted   uint64
	Rejected         uint64 // requests rejected at entry, because of too many waiters or a policy that rejects
	TimedOut         uint64
	Withdrawn        uint64 // waiters that left
	Cleared          uint64
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	Deadlocked       bool  // every holder has a descendant among the waiters
	Policy           history.Policy
}

// Stats reads a limit, as of the policy that the limit last received. ok is false if there is no such limit.
func (g *Limiter) Stats(ctx context.Context, name string) (Stats, bool, error) {
	s, _, ok, err := g.stats(ctx, name, limit.InForce{})
	return s, ok, err
}

// StatsInForce reads a limit as of the policy in force. An idle limit is not swept, so it still has the policy of its last use; newer
// receives that policy, and returns the policy in force if it is newer, otherwise nil.
func (g *Limiter) StatsInForce(ctx context.Context, name string, newer func(has limit.InForce) *limit.InForce) (Stats, bool, error) {
	s, has, ok, err := g.stats(ctx, name, limit.InForce{})
	if err != nil || !ok {
		return s, ok, err
	}
	if f := newer(has); f != nil {
		s, _, ok, err = g.stats(ctx, name, *f)
	}
	return s, ok, err
}

// stats also returns the version and the declaration of the policy that the limit last received.
func (g *Limiter) stats(ctx context.Context, name string, f limit.InForce) (s Stats, has limit.InForce, ok bool, _ error) {
	r, p, err := g.read(ctx, name, "", f)
	if err != nil || r.Str(0) != "1" {
		return Stats{}, has, false, err
	}
	if has.Version, err = strconv.ParseUint(r.Str(16), 10, 64); err != nil {
		return Stats{}, has, false, fmt.Errorf("limit %s: version of the policy: %w", name, err)
	}
	if has.Declared, err = eventcodec.DecodeDeclared([]byte(r.Str(17))); err != nil {
		return Stats{}, has, false, fmt.Errorf("limit %s: %w", name, err)
	}
	s = Stats{
		Action: limit.Action(name), Key: limit.Key(name), QueueLength: int(r.Int(2)), Active: int(r.Int(3)), MaxConcurrent: int(p.Concurrency),
		OldestEnqueuedAt: r.Int(4) / 1000, LimitedUntil: r.Int(5), Deadlocked: r.Str(6) == "1", Policy: p,
	}
	for i, n := range []*uint64{&s.TotalEnqueued, &s.TotalCompleted, &s.Rejected, &s.TimedOut, &s.Withdrawn, &s.Cleared} {
		*n = uint64(r.Int(8 + i)) //nolint:gosec // counters
	}
	return s, has, true, r.Err()
}

// Place describes a member at a limit.
type Place struct {
	Position         int // from 1; 0 for a holder
	Waiting, Holding int
	Policy           history.Policy
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	Since            int64 // time at which it entered, Unix ms; 0 for a holder
	Deadlocked       bool
}

// Place reads the place of a member. ok is false if it is neither a waiter nor a holder.
func (g *Limiter) Place(ctx context.Context, name string, m limit.Member) (Place, bool, error) {
	r, p, err := g.read(ctx, name, m.String(), limit.InForce{})
	if err != nil || r.Str(14) == "" {
		return Place{}, false, err
	}
	return Place{
		Position: int(r.Int(14)), Since: r.Int(15) / 1000, Waiting: int(r.Int(2)), Holding: int(r.Int(3)),
		Policy: p, LimitedUntil: r.Int(5), Deadlocked: r.Str(6) == "1",
	}, true, r.Err()
}

func (g *Limiter) read(ctx context.Context, name, member string, f limit.InForce) (*redisx.Reply, history.Policy, error) {
	var p history.Policy
	args, err := policyArgs(f, name)
	if err != nil {
		return nil, p, err
	}
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.stats, Keys: g.keys(name), Args: append([]any{member}, args[:3]...)})
	if err != nil {
		return nil, p, fmt.Errorf("limit %s: read: %w", name, err)
	}
	r := redisx.NewReply(v)
	if text := r.Str(7); text != "" {
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, p, fmt.Errorf("limit %s: its policy: %w", name, err)
		}
	}
	return r, p, r.Err()
}

// Waiter is a waiter of a limit.
type Waiter struct {
	limit.Member
	Since    int64 // Unix ms
	Position int   // from 1
}

// Waiters reads up to n waiters in FIFO order, without the first `from`.
func (g *Limiter) Waiters(ctx context.Context, name string, from, n int) ([]Waiter, error) {
	from = max(from, 0)
	if n < 1 {
		return nil, nil
	}
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.waiters, Keys: []string{g.space.Limit(name).Waiters()}, Args: []any{from, from + n - 1}})
	if err != nil {
		return nil, fmt.Errorf("limit %s: list the waiters: %w", name, err)
	}
	r := redisx.NewReply(v)
	var out []Waiter
	for i := 0; i+1 < r.Len(); i += 2 {
		w := Waiter{Position: from + i/2 + 1}
		if w.Member, err = limit.ParseMember(r.Str(i)); err != nil {
			return nil, fmt.Errorf("limit %s: %w", name, err)
		}
		number, err := score(r.Str(i + 1))
		if err != nil {
			return nil, fmt.Errorf("limit %s: number of %s: %w", name, w.Member, err)
		}
		w.Since = number / 1000
		out = append(out, w)
	}
	return out, r.Err()
}

// score parses the score of a sorted set, in any notation.
func score(text string) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err
}

// Holders reads up to n holders, the least recently active first.
func (g *Limiter) Holders(ctx context.Context, name string, n int) ([]limit.Member, error) {
	if n < 1 {
		return nil, nil
	}
	v, err := g.run.Do(ctx, redisx.Command("ZRANGE", g.space.Limit(name).Holders(), 0, n-1))
	if err != nil {
		return nil, fmt.Errorf("limit %s: list the holders: %w", name, err)
	}
	r := redisx.NewReply([]any{v})
	texts := r.Strs(0)
	if r.Err() != nil {
		return nil, r.Err()
	}
	return members(texts)
}
