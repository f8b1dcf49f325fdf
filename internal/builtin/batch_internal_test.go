package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/filter"
)

// namespace contains the lists of all partitions. Each instance changes its status once, between two reads.
type namespace struct {
	t       *rapid.T
	now     int64
	lists   [][]Listed // latest change first
	waiting []string   // instances that have not changed their status
	failing bool       // whether a read may fail
}

func newNamespace(t *rapid.T) *namespace {
	ns := &namespace{t: t, lists: make([][]Listed, rapid.IntRange(1, 3).Draw(t, "partitions")), now: 1}
	for p := range ns.lists {
		for i := range rapid.IntRange(0, 12).Draw(t, "instances") {
			ns.now += int64(rapid.IntRange(0, 1).Draw(t, "ms"))
			id := fmt.Sprintf("%d-%d", p, i)
			ns.lists[p] = append(ns.lists[p], Listed{Instance: id, Since: ns.now})
			ns.waiting = append(ns.waiting, id)
		}
	}
	ns.now++
	return ns
}

func (ns *namespace) order(p int) {
	slices.SortFunc(ns.lists[p], func(a, b Listed) int {
		return cmp.Or(cmp.Compare(b.Since, a.Since), cmp.Compare(b.Instance, a.Instance))
	})
}

// change changes the status of some instances.
func (ns *namespace) change() {
	for len(ns.waiting) > 0 && rapid.IntRange(0, 3).Draw(ns.t, "change") == 0 {
		n := rapid.IntRange(0, len(ns.waiting)-1).Draw(ns.t, "which")
		for p := range ns.lists {
			for i := range ns.lists[p] {
				if ns.lists[p][i].Instance == ns.waiting[n] {
					ns.lists[p][i].Since = ns.now
				}
			}
		}
		ns.waiting = slices.Delete(ns.waiting, n, n+1)
		ns.now += int64(rapid.IntRange(0, 1).Draw(ns.t, "ms"))
	}
}

// list returns a page of at most three rows. The cursor is a position in the order, as in the store.
func (ns *namespace) list(p int, _ filter.Where, cursor string, limit int) (rows []Listed, next string, _ error) {
	ns.change()
	if ns.failing && rapid.IntRange(0, 4).Draw(ns.t, "fails") == 0 {
		return nil, "", errors.New("redis is away")
	}
	ns.order(p)
	since, behind := int64(1<<62), ""
	if cursor != "" {
		var text string
		_, _ = fmt.Sscanf(cursor, "%d %s", &since, &text)
		behind = text
	}
	for _, row := range ns.lists[p] {
		if row.Since > since || row.Since == since && row.Instance >= behind && cursor != "" {
			continue
		}
		if len(rows) == min(limit, 3) {
			last := rows[len(rows)-1]
			return rows, strconv.FormatInt(last.Since, 10) + " " + last.Instance, nil
		}
		rows = append(rows, row)
	}
	return rows, "", nil
}

// An instance receives its request each time that it is read, under the same message id.
func TestBatchReadsEveryInstanceEvenIfItsStatusChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := newNamespace(t)
		ns.failing = rapid.Bool().Draw(t, "failing")
		all := slices.Clone(ns.waiting)
		st := BatchState{Batch: Batch{Verb: rapid.SampledFrom([]BatchVerb{BatchCancel, BatchEvent}).Draw(t, "verb"), All: true, Event: "e"}, Began: time.Now()}
		st.Batch.Rate = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "rate")
		n := Instances{Partitions: len(ns.lists), List: ns.list}
		read := make(map[string]int)
		for i := 0; st.Partitions == 0 || !st.over(); i++ {
			if i > 10_000 {
				t.Fatalf("it does not end: %+v", st)
			}
			got, err := n.read("batch", &st)
			if rapid.IntRange(0, 9).Draw(t, "crash") == 0 { // a crash before the commit
				continue
			}
			for _, id := range got.Instances {
				read[id]++
			}
			st.take(got, err, time.Now())
		}
		for _, id := range all {
			if read[id] == 0 || read[id] > 2 || read[id] > 1 && slices.Contains(ns.waiting, id) {
				t.Fatalf("%s was read %d times", id, read[id])
			}
		}
	})
}

// A batch that continued at its place after the number of partitions changed would miss instances that moved in front of it.
func TestBatchReadsAllAgainWhenThePartitionsWereResized(t *testing.T) {
	lists := [][]Listed{{{Instance: "a", Since: 3}}, {{Instance: "b", Since: 2}}}
	n := Instances{Partitions: 2, List: func(p int, _ filter.Where, cursor string, _ int) ([]Listed, string, error) {
		if cursor != "" {
			return nil, "", errors.New("the cursor of another list")
		}
		return lists[p], "", nil
	}}
	st := BatchState{Batch: Batch{Verb: BatchPurge, All: true, Rate: 1}, Began: time.Now()}
	first, err := n.read("batch", &st)
	if err != nil || !slices.Equal(first.Instances, []string{"a"}) {
		t.Fatalf("%v, %v", first, err)
	}
	st.take(first, nil, time.Now())
	lists, n.Partitions = [][]Listed{{{Instance: "b", Since: 2}}, nil, {{Instance: "a", Since: 3}}}, 3
	var read []string
	for !st.over() {
		got, err := n.read("batch", &st)
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, got.Instances...)
		st.take(got, nil, time.Now())
	}
	if !slices.Contains(read, "b") {
		t.Errorf("read %v, and b is not among them", read)
	}
}

func TestBatchKeepsItsRate(t *testing.T) {
	st := BatchState{Batch: Batch{Verb: BatchCancel, Rate: 100}}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	for range 50 {
		now = now.Add(st.take(page{Instances: make([]string, 100), Partitions: 1}, nil, now))
		now = now.Add(7 * time.Millisecond) // the time that a page takes
	}
	if d := now.Sub(begin); d < 50*time.Second || d > 51*time.Second {
		t.Errorf("5,000 requests at 100/s took %s", d)
	}
}

func TestInvalidBatchIsRejected(t *testing.T) {
	good := []Batch{
		{Verb: BatchCancel, Where: "orchestration = a"}, {Verb: BatchPurge, All: true, Force: true}, {Verb: BatchEvent, Event: "e", All: true},
		{Verb: BatchRewind, To: 3, Where: "code = x"}, {Verb: BatchRetry, FromStart: true, All: true}, {Verb: BatchPause, Stop: true, All: true},
	}
	for _, b := range good {
		if err := b.Check(); err != nil {
			t.Errorf("%+v: %v", b, err)
		}
	}
	for _, b := range []Batch{
		{Verb: BatchCancel}, {Verb: BatchCancel, Where: "orchestration = a", All: true}, {Verb: "delete", All: true}, {Verb: BatchEvent, All: true},
		{Verb: BatchCancel, Where: "status = x"}, {Verb: BatchRewind, All: true}, {Verb: BatchCancel, To: 3, All: true}, {Verb: BatchCancel, Force: true, All: true},
		{Verb: BatchRetry, Stop: true, All: true}, {Verb: BatchCancel, Rate: -1, All: true}, {Verb: BatchCancel, Event: "e", All: true},
	} {
		if b.Check() == nil {
			t.Errorf("%+v is accepted", b)
		}
	}
}
