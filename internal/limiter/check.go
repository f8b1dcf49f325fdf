package limiter

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Check reads a limit and returns an error for every invariant that it violates:
//
//   - every member is valid, and in one place only;
//   - the numbers of waiters ascend, and none exceeds the last number;
//   - entered = waiters + holders + completed + withdrawn + timed out + cleared;
//   - the counter of waiters that name an ancestor is correct;
//   - the times of the last grants ascend, and there are no more of them than any policy allows.
//
// There may be more holders than the concurrency allows: those admitted before it was lowered, and those restored after Redis had lost
// them.
func (g *Limiter) Check(ctx context.Context, name string) []error {
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.snapshot, Keys: g.keys(name)})
	if err != nil {
		return []error{fmt.Errorf("limit %s: %w", name, err)}
	}
	r := redisx.NewReply(v)
	e := &checker{queue: r.Strs(1), active: r.Strs(2), rejected: r.Strs(3), rate: r.Strs(4), state: make(map[string]string)}
	state := r.Strs(5)
	if r.Err() != nil {
		return []error{fmt.Errorf("limit %s: %w", name, r.Err())}
	}
	for i := 0; i+1 < len(state); i += 2 {
		e.state[state[i]] = state[i+1]
	}
	e.places()
	e.numbers()
	e.counters()
	e.grants()
	for i, err := range e.violations {
		e.violations[i] = fmt.Errorf("limit %s: %w", name, err)
	}
	return e.violations
}

// checker checks one limit.
type checker struct {
	queue                  []string // waiters, each followed by its number
	active, rejected, rate []string
	state                  map[string]string
	violations             []error
}

func (e *checker) violationf(format string, args ...any) {
	e.violations = append(e.violations, fmt.Errorf(format, args...))
}

func (e *checker) field(name string) int64 {
	if e.state[name] == "" {
		return 0
	}
	n, err := strconv.ParseInt(e.state[name], 10, 64)
	if err != nil {
		e.violationf("field %s of the state is %q", name, e.state[name])
	}
	return n
}

func (e *checker) places() {
	where := make(map[string]string)
	put := func(m, place string) {
		if _, err := limit.ParseMember(m); err != nil {
			e.violationf("%s: %w", place, err)
		}
		if other, twice := where[m]; twice {
			e.violationf("%s %s and %s", m, other, place)
		}
		where[m] = place
	}
	nested := int64(0)
	for i := 0; i+1 < len(e.queue); i += 2 {
		put(e.queue[i], "waits")
		if strings.Count(e.queue[i], " ") == 3 {
			nested++
		}
	}
	for _, m := range e.active {
		put(m, "holds")
	}
	for _, m := range e.rejected {
		switch {
		case strings.HasPrefix(m, "t"):
			put(m[1:], "has timed out")
		case strings.HasPrefix(m, "c"):
			put(m[1:], "was cleared")
		default:
			e.violationf("%q was rejected for an unknown reason", m)
		}
	}
	if n := e.field("ha"); n != nested {
		e.violationf("%d waiters name an ancestor that holds the limit, and %d are counted", nested, n)
	}
}

func (e *checker) numbers() {
	last, newest := int64(0), e.field("seq")
	for i := 0; i+1 < len(e.queue); i += 2 {
		n, err := score(e.queue[i+1])
		switch {
		case err != nil:
			e.violationf("%s has the number %q", e.queue[i], e.queue[i+1])
		case n <= last:
			e.violationf("%s has the number %d, and the waiter before it %d", e.queue[i], n, last)
		case n > newest:
			e.violationf("%s has the number %d, and the last number assigned is %d", e.queue[i], n, newest)
		}
		last = n
	}
}

func (e *checker) counters() {
	waiting, holding := int64(len(e.queue)/2), int64(len(e.active))
	n, o, w, t, c := e.field("e"), e.field("c"), e.field("w"), e.field("t"), e.field("cl")
	if n != waiting+holding+o+w+t+c {
		e.violationf("%d have entered, but %d wait, %d hold, %d have completed, %d withdrawn, %d timed out, %d were cleared", n, waiting, holding, o, w, t, c)
	}
	for _, f := range []string{"e", "c", "w", "t", "cl", "r"} {
		if e.field(f) < 0 {
			e.violationf("counter %s is %d", f, e.field(f))
		}
	}
}

func (e *checker) grants() {
	if len(e.rate) > history.MaxRate {
		e.violationf("%d grants are kept, and no rate is above %d", len(e.rate), history.MaxRate)
	}
	last := int64(0)
	for _, text := range e.rate {
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil || at < last {
			e.violationf("a grant at %q follows one at %d", text, last)
		}
		last = at
	}
}
