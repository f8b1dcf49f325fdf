// Package maploop has loops over maps: first those that let the order decide, then
// those that come out the same in every order.
package maploop

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/pawlrun/pawl"
)

var (
	step   = pawl.NewActivity[string, int]("step")
	errBad = errors.New("bad")
)

type tally struct {
	names []string
	sum   int
	rate  int
	best  string
}

func (t *tally) add(s string) { t.names = append(t.names, s) }

func (t tally) has(s string) bool { return slices.Contains(t.names, s) }

func decide(ctx *pawl.Context, m map[string]int) (err error) {
	for k := range m { // want `^a loop over a map comes in another order at every replay, and this one gives its \*pawl\.Context to calls in that order \(line 36\); range over slices\.Sorted\(maps\.Keys\(m\)\) \[map\]$`
		_, _ = step.Call(ctx, k)
	}
	for range maps.Keys(m) { // every round is the same
		_, _ = step.Call(ctx, "")
	}
	for k := range maps.Keys(m) { // want `gives its \*pawl\.Context`
		_ = helper(ctx, k)
	}
	for _, v := range maps.All(m) { // want `gives its \*pawl\.Context`
		_ = pawl.Sleep(ctx, 0)
		_ = v
	}
	var futures []*pawl.Future[int]
	for k := range m { // want `gives its \*pawl\.Context`
		futures = append(futures, step.Start(ctx, k))
	}
	named := map[string]*pawl.Future[int]{}
	for _, f := range named { // want `cancels futures in that order`
		if !f.Ready() {
			f.Cancel("not needed")
		}
	}
	for k := range m { // want `returns what the element that it meets first says`
		if k == "" {
			return fmt.Errorf("%q is bad", k)
		}
	}
	for k, v := range m { // want `keeps one of several elements in err`
		if v == 0 {
			err = fmt.Errorf("%q is bad", k)
			return
		}
	}
	for k, v := range m { // want `ends early in more than one way`
		if v == 0 {
			return errBad
		}
		if k == "" {
			return nil
		}
	}
	for k := range m { // want `panics with the element that it meets first`
		if k == "" {
			panic(k)
		}
	}
	return nil
}

func helper(*pawl.Context, string) error { return nil }

func keep(ctx *pawl.Context, m map[string]int, t *tally) string {
	var last, best string
	most, n := 0, 0
	for k := range m { // want `keeps one of several elements in last`
		last = k
	}
	for last = range m { // want `leaves the last element in a variable outside of it`
	}
	for k := range m { // want `keeps one of several elements in last`
		last = k
		break
	}
	for k, v := range m { // want `asks what the elements before have left in most`
		if v > most {
			most, best = v, k
		}
	}
	for k, v := range m { // want `ends early, and has then changed n for some elements only`
		n += v
		if k == "" {
			break
		}
	}
	for k, v := range m { // want `ends early, and has then changed t for some elements only`
		t.sum += v
		if k == "" {
			return ""
		}
	}
	for _, v := range m { // want `asks what the elements before have left in n`
		if n < 10 {
			n += v
		}
	}
	for _, v := range m { // want `makes most of what the elements before have left`
		n += v
		most += n
	}
	for _, v := range m { // want `changes n in two ways`
		n += v
		n *= v
	}
	for _, v := range m { // want `changes n by an operator whose order matters`
		n /= v
	}
	for _, v := range m { // want `sets last to one thing or another`
		if v == 0 {
			last = "zero"
		} else {
			last = "other"
		}
	}
	for k := range m { // want `defers calls in that order`
		defer fmt.Sprint(k)
	}
	sum, text := 0.0, ""
	for _, v := range m { // want `adds up floating-point numbers, of which the rounding depends on the order`
		sum += float64(v)
	}
	for k := range m { // want `joins strings in that order`
		text = text + k
	}
	for k := range m { // want `calls t\.add for what it does to t, in that order`
		t.add(k)
	}
	var b strings.Builder
	for k := range m { // want `calls b\.WriteString for what it does to b|writes to b`
		b.WriteString(k)
	}
	h := fnv.New64a()
	for k := range m { // want `writes to h in that order`
		if _, err := fmt.Fprint(h, k); err != nil {
			return ""
		}
	}
	visit := func(k string) {}
	for k := range m { // want `calls visit for what it does to visit`
		visit(k)
	}
	return last + best + text
}

func collect(ctx *pawl.Context, m map[string]int, t *tally) []string {
	var keys []string
	for k := range m { // want `appends to keys, which is not sorted next`
		keys = append(keys, k)
	}
	for k := range m { // want `appends to t\.names, which is not sorted next`
		t.names = append(t.names, k)
	}
	places := make(map[string]int)
	i := 0
	for k := range m { // want `makes places\[k\] of what the elements before have left`
		places[k] = i
		i++
	}
	list := make([]string, len(m))
	i = 0
	for k := range m { // want `puts elements into list in that order`
		list[i] = k
		i++
	}
	inverse := make(map[int]string)
	for k, v := range m { // want `keeps one of several elements in inverse\[v\]`
		inverse[v] = k
	}
	groups := make(map[int][]string)
	for k, v := range m { // want `appends to groups\[v\], which is not sorted next`
		groups[v] = append(groups[v], k)
	}
	_ = groups[0][0]
	for k, v := range m { // want `adds to the map that it goes through`
		m[k+k] = v
	}
	for k := range m { // want `takes elements out of the map that it goes through`
		delete(m, k+k)
	}
	seq := maps.Keys(m)                    // want `^maps\.Keys comes in another order at every replay, and the order is kept; use slices\.Sorted\(maps\.Keys\(m\)\) \[map\]$`
	values := slices.Collect(maps.Keys(m)) // want `maps\.Keys comes in another order`
	_ = values
	_ = seq
	return keys
}

func yields(ctx *pawl.Context, m map[string]int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range m { // want `yields its elements in that order`
			if !yield(k) {
				return
			}
		}
	}
}

func generic[M ~map[string]V, V any](ctx *pawl.Context, m M) string {
	for k := range m { // want `returns what the element that it meets first says`
		return k
	}
	return ""
}

func outer(ctx *pawl.Context, ms []map[string]int) int {
	n := 0
	for _, m := range ms {
	inner:
		for k, v := range m { // want `ends early, and has then changed n`
			for range v {
				n++
				if k == "" {
					break inner
				}
			}
		}
	}
	return n
}

type celsius string

func free(ctx *pawl.Context, m map[string]int, t *tally) (map[string]int, error) {
	var keys, again []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for k, v := range m {
		if v > 0 {
			again = append(again, k)
		}
	}
	if len(again) > 1 {
		slices.SortFunc(again, strings.Compare)
	}
	for k := range m {
		t.names = append(t.names, k)
	}
	sort.Sort(sort.StringSlice(t.names))
	for range m {
		t.names = append(t.names, "same")
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_, _ = step.Call(ctx, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(m), strings.Compare) {
		_, _ = step.Call(ctx, k)
	}
	collected := slices.Collect(maps.Values(m))
	slices.Sort(collected)
	_ = maps.Collect(maps.All(m))

	out := maps.Clone(m)
	typed, groups, seen := map[celsius]int{}, map[int]map[string]bool{}, map[int]bool{}
	n, most, least, found, all := 0, 0, 1000, false, true
	var mask uint
	for k, v := range m {
		if v < 0 {
			return nil, errBad // which one does not show, and out is gone
		}
		twice := 2 * v
		out[k] = twice
		typed[celsius(k)] = v
	}
	for k, v := range m {
		if groups[v] == nil {
			groups[v] = make(map[string]bool)
		}
		groups[v][k] = true
		seen[v] = true
		n += v * t.rate
		n++
		n = n - 1
		t.sum += v * t.rate
		mask |= uint(v)
		most = max(most, v)
		if v < least {
			least = v
		}
		all = all && v > 0
		pawl.Logger(ctx).Info("met", "key", k)
	}
	for k, v := range m {
		if v == 0 && t.has(k) {
			found = true
			break
		}
	}
	for k, v := range m {
		switch {
		case v == 0:
			delete(m, k)
			continue
		case v == 1:
			break
		}
	}
	for k := range m {
		m[k]++
	}
	for _, v := range m {
		parts := []int{v}
		parts = append(parts, v)
		slices.Reverse(parts)
		_ = parts
	}
	_, _, _, _, _ = found, all, most, least, mask
	return out, nil
}
