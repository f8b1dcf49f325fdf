// Package across reaches through other packages.
package across

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"example.org/clock"
	"example.org/shop"
	"github.com/pawlrun/pawl"
)

var Work = pawl.NewActivity[int, int]("work")

type service struct{ shop shop.Shop }

func (s *service) orchestrate(ctx *pawl.Context, n int) (int, error) {
	if s.shop.Open(n) { // want `shop\.Shop\.Open reaches time\.Now \(clock\.go:18\) via shop\.price → clock\.New → clock\.now, which returns another time`
		return shop.Sell(ctx, n)
	}
	var stamp clock.Stamp
	stamp.Renew()        // want `clock\.Stamp\.Renew reaches time\.Now`
	defer stamp.Renew()  // want `clock\.Stamp\.Renew reaches time\.Now`
	renew := stamp.Renew // want `clock\.Stamp\.Renew reaches time\.Now`
	renew()
	_ = clock.Even(n)    // want `clock\.Even reaches os\.Getpid \(clock\.go:34\) via clock\.Odd.*\[io\]`
	clock.Set("x")       // want `clock\.Set reaches a write to clock\.table .*\[global\]`
	clock.Run(func() {}) // want `clock\.Run reaches a go statement .*\[go\]` `clock\.Run reaches .*channel.*\[channel\]`
	_ = clock.Lookup("x")
	_ = clock.Argued()
	_ = later(n)                                   // want `across\.later reaches time\.Now \(clock\.go:18\) via clock\.New → clock\.now`
	return apply(double, n) + apply(tardy, n), nil // want `across\.tardy reaches time\.Now`
}

// What is confined to a package is reported in it, also through its helpers.
func confined(ctx *pawl.Context) int {
	say("x")                   // want `across\.say reaches fmt\.Println \(across\.go:\d+\), which is repeated at every replay; use pawl\.Logger\(ctx\).*\[io\]`
	_ = background()           // want `across\.background reaches context\.Background .*\[context\]`
	return (&counter{}).next() // want `across\.counter\.next reaches sync\.Mutex\.Lock .*\[sync\]`
}

func say(s string) { fmt.Println(s) }

func background() context.Context { return context.Background() }

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func later(n int) clock.Stamp { return clock.New() } // want later:`reaches`

func apply(f func(int) int, n int) int { return f(n) }

func double(n int) int { return 2 * n }

func tardy(n int) int { // want tardy:`reaches`
	if later(n).Zero() {
		return 0
	}
	return n
}

func keys(ctx *pawl.Context, m map[string]int) ([]string, error) {
	sorted := clock.Keys(m)
	sort.Strings(sorted)
	var alike = clock.Keys(m)
	if len(alike) > 1 {
		slices.Sort(alike)
	}
	late := clock.Keys(m) // want `clock\.Keys reaches a loop over a map \(clock\.go:\d+\), which has another order at every replay; range over .*\[map\]`
	first := late[0]
	sort.Strings(late)
	_ = first
	return clock.Keys(m), nil // want `clock\.Keys reaches a loop over a map`
}

var (
	orchestration = pawl.NewOrchestration[int, int]("across")
	bindings      = []pawl.Binding{
		orchestration.Do((&service{}).orchestrate),
		orchestration.Do(shop.Sell),
		Work.Do(shop.Shop{}.Work),
	}
)
