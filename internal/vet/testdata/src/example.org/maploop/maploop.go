// Package maploop has loops over maps: first those that are reported, then those that are accepted.
package maploop

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/pawlrun/pawl"
)

var step = pawl.NewActivity[string, int]("step")

type tally struct{ names []string }

func reported(ctx *pawl.Context, m map[string]int, t *tally) []string {
	for k := range m { // want `^a loop over a map has another order at every replay; range over slices\.Sorted\(maps\.Keys\(m\)\) \[map\]$`
		_, _ = step.Call(ctx, k)
	}
	for k := range maps.Keys(m) { // want `a loop over a map`
		_, _ = step.Call(ctx, k)
	}
	for _, v := range maps.All(m) { // want `a loop over a map`
		_ = v
	}
	var last string
	for last = range m { // want `a loop over a map`
	}
	sum := 0
	for _, v := range m { // want `a loop over a map`
		sum += v // the same in every order, which is not analyzed
	}
	var keys, unsorted, some []string
	for k := range m { // want `a loop over a map`
		unsorted = append(unsorted, k)
	}
	for k := range m { // want `a loop over a map`
		if k != "" {
			some = append(some, k)
		}
	}
	slices.Sort(some)
	for k, v := range m { // want `a loop over a map`
		keys = append(keys, k)
		_ = v
	}
	for k := range m { // want `a loop over a map`
		t.names = append(t.names, k)
	}
	for k := range m { // want `a loop over a map`
		keys = append(unsorted, k)
	}
	slices.Sort(keys)
	seq := maps.Keys(m)                    // want `^maps\.Keys has another order at every replay; use slices\.Sorted\(maps\.Keys\(m\)\) \[map\]$`
	values := slices.Collect(maps.Keys(m)) // want `maps\.Keys has another order`
	_, _, _ = values, seq, last
	return unsorted
}

func generic[M ~map[string]V, V any](ctx *pawl.Context, m M) string {
	for k := range m { // want `a loop over a map`
		return k
	}
	return ""
}

func accepted(ctx *pawl.Context, m map[string]int) map[string]int {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_, _ = step.Call(ctx, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(m), strings.Compare) {
		_, _ = step.Call(ctx, k)
	}
	var keys, more []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for k := range maps.Keys(m) {
		more = append(more, k)
	}
	if len(more) > 1 {
		slices.SortFunc(more, strings.Compare)
	}
	for range m { // does not use key and value
		_, _ = step.Call(ctx, "")
	}
	for range maps.Keys(m) {
		_, _ = step.Call(ctx, "")
	}
	collected := slices.Collect(maps.Values(m))
	slices.Sort(collected)
	_ = maps.Collect(maps.All(m))
	return maps.Clone(m)
}
