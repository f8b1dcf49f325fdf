package core

import (
	"slices"
	"strconv"
	"testing"
)

func TestLeastRecentlyUsedParkedInstanceIsEvicted(t *testing.T) {
	p := parked{limit: 3}
	all := make([]*instance, 5)
	for i := range all {
		all[i] = &instance{id: strconv.Itoa(i)}
	}
	order := func() (ids []string) {
		var before *instance
		for in := p.first; in != nil; in = in.behind {
			if in.before != before || !in.parked {
				t.Fatalf("%s follows %v", in.id, in.before)
			}
			ids, before = append(ids, in.id), in
		}
		if p.last != before || p.n != len(ids) {
			t.Fatalf("%d of %v, the last is %v", p.n, ids, p.last)
		}
		return ids
	}
	for _, step := range []struct {
		add, remove string
		out         string
		want        []string
	}{
		{add: "0", want: []string{"0"}},
		{add: "1", want: []string{"1", "0"}},
		{add: "2", want: []string{"2", "1", "0"}},
		{add: "0", want: []string{"0", "2", "1"}},
		{add: "3", out: "1", want: []string{"3", "0", "2"}},
		{remove: "1", want: []string{"3", "0", "2"}},
		{remove: "0", want: []string{"3", "2"}},
		{remove: "3", want: []string{"2"}},
		{remove: "2"},
		{add: "4", want: []string{"4"}},
	} {
		if step.remove != "" {
			i, _ := strconv.Atoi(step.remove)
			p.remove(all[i])
		} else {
			i, _ := strconv.Atoi(step.add)
			out := p.add(all[i])
			if (out != nil) != (step.out != "") || out != nil && (out.id != step.out || out.parking != parking{}) {
				t.Errorf("%s replaces %v, want %q", step.add, out, step.out)
			}
		}
		if got := order(); !slices.Equal(got, step.want) {
			t.Errorf("add %q, remove %q: %v, want %v", step.add, step.remove, got, step.want)
		}
	}
}
