package limiter

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Stats is how a gate stands, and what has happened at it. The counters of a gate with a key are forgotten an hour after its last
// use; TotalEnqueued = QueueLength + Active + TotalCompleted + TimedOut + Withdrawn + Cleared.
type Stats struct {
	Action           string
	Key              string // empty: the gate has none
	QueueLength      int
	Active           int
	MaxConcurrent    int   // 0: any number
	OldestEnqueuedAt int64 // Unix ms; 0: nobody waits
	TotalEnqueued    uint64
	TotalCompleted   uint64
	Rejected         uint64 // refused at once, by a full queue or a policy that rejects: counted each time that it was asked
	TimedOut         uint64
	Withdrawn        uint64 // left while it waited
	Cleared          uint64
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	Deadlocked       bool
	Policy           history.Policy
}

// Stats reads how a gate stands, by the policy that it has; false if there is no such gate.
func (g *Limiter) Stats(ctx context.Context, gate string) (Stats, bool, error) {
	s, _, ok, err := g.stats(ctx, gate, InForce{})
	return s, ok, err
}

// StatsInForce is Stats by the policy that is in force: an idle gate is visited by nobody, and has the one of its last use. newer
// gives what is in force now if it is newer than what the gate has.
func (g *Limiter) StatsInForce(ctx context.Context, gate string, newer func(has InForce) *InForce) (Stats, bool, error) {
	s, has, ok, err := g.stats(ctx, gate, InForce{})
	if err != nil || !ok {
		return s, ok, err
	}
	if f := newer(has); f != nil {
		s, _, ok, err = g.stats(ctx, gate, *f)
	}
	return s, ok, err
}

// stats gives of the policy that the gate has its version, and what the code declares.
func (g *Limiter) stats(ctx context.Context, gate string, f InForce) (s Stats, has InForce, ok bool, _ error) {
	r, p, err := g.read(ctx, gate, "", f)
	if err != nil || r.Str(0) != "1" {
		return Stats{}, has, false, err
	}
	if has.Version, err = strconv.ParseUint(r.Str(16), 10, 64); err != nil {
		return Stats{}, has, false, fmt.Errorf("gate %s: version of the policy: %w", gate, err)
	}
	if has.Declared, err = history.DecodeDeclared([]byte(r.Str(17))); err != nil {
		return Stats{}, has, false, fmt.Errorf("gate %s: %w", gate, err)
	}
	s = Stats{
		Action: Action(gate), Key: Key(gate), QueueLength: int(r.Int(2)), Active: int(r.Int(3)), MaxConcurrent: int(p.Concurrency),
		OldestEnqueuedAt: r.Int(4) / 1000, LimitedUntil: r.Int(5), Deadlocked: r.Str(6) == "1", Policy: p,
	}
	for i, n := range []*uint64{&s.TotalEnqueued, &s.TotalCompleted, &s.Rejected, &s.TimedOut, &s.Withdrawn, &s.Cleared} {
		*n = uint64(r.Int(8 + i)) //nolint:gosec // counters
	}
	return s, has, true, r.Err()
}

// Place is where somebody stands at a gate.
type Place struct {
	Position         int // from 1; 0: it is in
	Waiting, Holding int
	Policy           history.Policy
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	Since            int64 // when it began to wait, Unix ms; 0: it is in
	Deadlocked       bool
}

// Place reads where a member stands; false if it neither waits nor is in.
func (g *Limiter) Place(ctx context.Context, gate string, m Member) (Place, bool, error) {
	r, p, err := g.read(ctx, gate, m.String(), InForce{})
	if err != nil || r.Str(14) == "" {
		return Place{}, false, err
	}
	return Place{
		Position: int(r.Int(14)), Since: r.Int(15) / 1000, Waiting: int(r.Int(2)), Holding: int(r.Int(3)),
		Policy: p, LimitedUntil: r.Int(5), Deadlocked: r.Str(6) == "1",
	}, true, r.Err()
}

func (g *Limiter) read(ctx context.Context, gate, member string, f InForce) (*redisx.Reply, history.Policy, error) {
	var p history.Policy
	args, err := f.args(gate)
	if err != nil {
		return nil, p, err
	}
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.stats, Keys: g.keys(gate), Args: append([]any{member}, args[:3]...)})
	if err != nil {
		return nil, p, fmt.Errorf("gate %s: read: %w", gate, err)
	}
	r := redisx.NewReply(v)
	if text := r.Str(7); text != "" {
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, p, fmt.Errorf("gate %s: its policy: %w", gate, err)
		}
	}
	return r, p, r.Err()
}

// Waiter is somebody who waits.
type Waiter struct {
	Member
	Since    int64 // Unix ms
	Position int   // from 1
}

// Waiters reads up to n who wait, in order, after skipping the first `from`.
func (g *Limiter) Waiters(ctx context.Context, gate string, from, n int) ([]Waiter, error) {
	from = max(from, 0)
	if n < 1 {
		return nil, nil
	}
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.waiters, Keys: []string{g.space.Limit(gate).Waiters()}, Args: []any{from, from + n - 1}})
	if err != nil {
		return nil, fmt.Errorf("gate %s: list who waits: %w", gate, err)
	}
	r := redisx.NewReply(v)
	var out []Waiter
	for i := 0; i+1 < r.Len(); i += 2 {
		w := Waiter{Position: from + i/2 + 1}
		if w.Member, err = ParseMember(r.Str(i)); err != nil {
			return nil, fmt.Errorf("gate %s: %w", gate, err)
		}
		number, err := score(r.Str(i + 1))
		if err != nil {
			return nil, fmt.Errorf("gate %s: number of %s: %w", gate, w.Member, err)
		}
		w.Since = number / 1000
		out = append(out, w)
	}
	return out, r.Err()
}

// score reads the score of a sorted set, which a server may write as any number.
func score(text string) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err
}

// Holders reads up to n who are in, first the one that has not been heard of for the longest.
func (g *Limiter) Holders(ctx context.Context, gate string, n int) ([]Member, error) {
	if n < 1 {
		return nil, nil
	}
	v, err := g.run.Do(ctx, redisx.Command("ZRANGE", g.space.Limit(gate).Holders(), 0, n-1))
	if err != nil {
		return nil, fmt.Errorf("gate %s: list who is in: %w", gate, err)
	}
	r := redisx.NewReply(v)
	texts := make([]string, r.Len())
	for i := range texts {
		texts[i] = r.Str(i)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	return members(texts)
}
