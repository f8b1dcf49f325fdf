package client

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// gates is what an owner knows of gates. It is set before anybody asks, and answers small pages.
type gates struct {
	policies []queue.LevelPolicy
	stats    map[int][]queue.GateStats // by the partition that lists them
	waiters  []queue.GateWaiter        // of every gate
	seen     []queue.Ask
	lost     int // partition whose gates can not be listed, if not nought
}

func (g *gates) asked(p int, a queue.Ask) queue.Reply {
	g.seen = append(g.seen, a)
	if a.Op == queue.OpGates && p == g.lost && p != 0 {
		return queue.Reply{Problem: &queue.Problem{Code: queue.ProblemInternal, Message: "no idea"}}
	}
	none := queue.Reply{Problem: &queue.Problem{Code: queue.ProblemNotFound, Message: "nobody has ever come to a gate " + a.Gate + a.Level}}
	known := func(s queue.GateStats) bool { return s.Action == a.Gate && s.Key == a.Key }
	there := slices.ContainsFunc(slices.Concat(g.stats[0], g.stats[1], g.stats[2], g.stats[3]), known)
	switch a.Op {
	case queue.OpGates:
		from, _ := strconv.Atoi(a.Cursor)
		rows := slices.DeleteFunc(slices.Clone(g.stats[p]), func(s queue.GateStats) bool { return a.Gate != "" && s.Action != a.Gate })
		to := min(from+2, len(rows))
		r := queue.Reply{Gates: rows[from:to]}
		if to < len(rows) {
			r.Cursor = strconv.Itoa(to)
		}
		return r
	case queue.OpGate:
		for _, rows := range g.stats {
			if i := slices.IndexFunc(rows, known); i >= 0 {
				return queue.Reply{Gates: rows[i : i+1]}
			}
		}
	case queue.OpWaiters:
		if a.Status == queue.StatusHolding && there {
			return queue.Reply{Waiters: []queue.GateWaiter{{Instance: "h"}}[:min(1, a.Limit)]}
		}
		from, _ := strconv.Atoi(a.Cursor)
		if to := min(from+3, len(g.waiters)); there && to < len(g.waiters) {
			return queue.Reply{Waiters: g.waiters[from:to], Cursor: strconv.Itoa(to)}
		} else if there {
			return queue.Reply{Waiters: g.waiters[from:to]}
		}
	case queue.OpClear:
		if there {
			return queue.Reply{Cleared: len(g.waiters)}
		}
	case queue.OpPolicies:
		return queue.Reply{Policies: g.policies}
	case queue.OpSetPolicy:
		g.policies = append(g.policies, queue.LevelPolicy{Level: a.Level, Policy: *a.Policy})
		return queue.Reply{}
	case queue.OpDeletePolicy:
		was := len(g.policies)
		g.policies = slices.DeleteFunc(g.policies, func(l queue.LevelPolicy) bool { return l.Level == a.Level })
		if len(g.policies) < was {
			return queue.Reply{}
		}
	default: // is not about gates
	}
	return none
}

func TestAPolicyIsSetListedAndDeletedAndOneThatMakesNoSenseNeverLeaves(t *testing.T) {
	w, c := stand(t, Options{})
	p := Policy{Concurrency: 5, Rate: 100, RateWindow: time.Second, Key: "customer.id", Reject: true}
	ok(t, c.SetPolicy(soon(t), "action:charge-card", p))
	all, err := c.Policies(soon(t))
	if err != nil || !reflect.DeepEqual(all, []LevelPolicy{{Level: "action:charge-card", Policy: p}}) {
		t.Errorf("%+v, %v", all, err)
	}
	ok(t, c.DeletePolicy(soon(t), "action:charge-card"))
	if err := c.DeletePolicy(soon(t), "action:charge-card"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	asked := len(w.gates.seen)
	var bad *history.PolicyError
	if err := c.SetPolicy(soon(t), "global", Policy{Rate: 1}); !errors.As(err, &bad) {
		t.Error(err)
	}
	for _, level := range []string{"charge-card", "", "action:a b"} {
		if err := errors.Join(c.SetPolicy(soon(t), level, p), nil); !errors.Is(err, queue.ErrBadName) {
			t.Error(err)
		}
		if err := c.DeletePolicy(soon(t), level); !errors.Is(err, queue.ErrBadName) {
			t.Error(err)
		}
	}
	if len(w.gates.seen) != asked {
		t.Errorf("asked %+v", w.gates.seen[asked:])
	}
}

// keyed has gates of two actions all over the partitions.
func keyed(w *owner) {
	w.gates.stats = map[int][]queue.GateStats{0: {{Gate: "nap", Action: "nap", Waiting: 1}}}
	for i := range 10 {
		g := queue.GateStats{Gate: fmt.Sprint("charge/k", i), Action: "charge", Key: fmt.Sprint("k", i), Waiting: 2, Holding: 1, MaxConcurrent: 3, Entered: 9, Completed: 4,
			Rejected: 5, TimedOut: 1, Withdrawn: 2, Cleared: 3, Policy: history.Policy{Concurrency: 3}}
		switch i {
		case 3:
			g.Oldest, g.LimitedUntil = 70, 900
		case 4:
			g.Oldest, g.LimitedUntil, g.Deadlocked = 50, 1000, true
		}
		w.gates.stats[i%4] = append(w.gates.stats[i%4], g)
	}
}

func TestAnActionWithKeysHasTheSumOfItsGatesAndEachOneByItsKey(t *testing.T) {
	w, c := stand(t, Options{})
	keyed(w)
	got, err := c.QueueStats(soon(t), "charge", "")
	want := QueueInfo{Action: "charge", Keys: 10, Waiting: 20, Active: 10, OldestEnqueued: timeOf(50), Enqueued: 90, Completed: 40, Rejected: 50, TimedOut: 10,
		Withdrawn: 20, Cleared: 30, LimitedUntil: timeOf(900), Deadlocked: true, Policy: Policy{Concurrency: 3}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := c.QueueStats(soon(t), "charge", "k4"); err != nil || got.Key != "k4" || got.Keys != 0 || got.Waiting != 2 || !got.Deadlocked {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.QueueStats(soon(t), "nap", ""); err != nil || got.Keys != 0 || got.Waiting != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, key := range []string{"", "k4"} {
		if _, err := c.QueueStats(soon(t), "unknown", key); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := c.QueueStats(soon(t), "a b", ""); !errors.Is(err, pawl.ErrBadName) {
		t.Error(err)
	}
	w.gates.lost = 2
	if _, err := c.QueueStats(soon(t), "charge", ""); err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "1 of 4 partitions") {
		t.Errorf("a sum that lacks a part: %v", err)
	}
}

func TestAnInputWithoutAKeyDoesNotHideTheGatesOfTheOthers(t *testing.T) {
	w, c := stand(t, Options{})
	policy := history.Policy{Concurrency: 1, Key: "tenant"}
	at := func(key string, waiting uint64) queue.GateStats {
		return queue.GateStats{Gate: strings.TrimSuffix("debit/"+key, "/"), Action: "debit", Key: key, Waiting: waiting, MaxConcurrent: 1, Policy: policy}
	}
	w.gates.stats = map[int][]queue.GateStats{1: {at("", 3), at("acme", 5)}, 2: {at("other", 7)}}
	want := QueueInfo{Action: "debit", Keys: 3, Waiting: 15, Policy: policyOf(policy)}
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	w.gates.stats = map[int][]queue.GateStats{1: {at("", 3)}}
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != queueOf(at("", 3)) {
		t.Errorf("of one alone: %+v, %v", got, err)
	}
	w.gates.stats = map[int][]queue.GateStats{1: {at("", 0), at("acme", 5)}}
	want.Keys, want.Waiting = 1, 5
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != want {
		t.Errorf("all inputs have had a key: %+v, %v, want %+v", got, err, want)
	}
	policy.Key, want.Policy.Key = "", ""
	w.gates.stats = map[int][]queue.GateStats{1: {at("", 0), at("acme", 5)}}
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != want {
		t.Errorf("the policy has lost its key, and nobody has come since: %+v, %v, want %+v", got, err, want)
	}
}

func TestAllGatesAreListedPageByPageAndWhatIsMissingIsSaid(t *testing.T) {
	w, c := stand(t, Options{})
	keyed(w)
	names := func(action string) (got []string, failed error) {
		for g, err := range c.Queues(soon(t), action) {
			if err != nil {
				return got, err
			}
			got = append(got, g.Action+"/"+g.Key)
		}
		slices.Sort(got)
		return got, nil
	}
	if got, err := names(""); err != nil || len(got) != 11 || len(slices.Compact(got)) != 11 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := names("nap"); err != nil || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
	for range c.Queues(soon(t), "") { // may be left at any moment
		break
	}
	w.gates.lost = 1
	if got, err := names("charge"); err == nil || !strings.Contains(err.Error(), "1 of 4 partitions") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := names("a b"); !errors.Is(err, pawl.ErrBadName) {
		t.Error(err)
	}
}

func TestWhoWaitsIsListedInOrderAndTurnedAway(t *testing.T) {
	w, c := stand(t, Options{})
	keyed(w)
	for i := range 10 {
		w.gates.waiters = append(w.gates.waiters, queue.GateWaiter{Position: uint64(i + 1), Instance: fmt.Sprint("i-", i)})
	}
	var got []Waiter
	for x, err := range c.Waiters(soon(t), "charge", "k1") {
		ok(t, err)
		got = append(got, x)
	}
	if !reflect.DeepEqual(got, waitersOf(queue.Reply{Waiters: w.gates.waiters})) {
		t.Errorf("%+v", got)
	}
	if h, err := c.Holders(soon(t), "charge", "k1", 5); err != nil || len(h) != 1 || h[0].Instance != "h" {
		t.Errorf("%+v, %v", h, err)
	}
	if n, err := c.ClearQueue(soon(t), "charge", "k1"); err != nil || n != 10 {
		t.Errorf("%d, %v", n, err)
	}
	for _, err := range c.Waiters(soon(t), "charge", "") {
		if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
	if _, err := c.ClearQueue(soon(t), "charge", ""); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestAnInstanceThatIsPendingIsListedAndItsPurgeIsRefused(t *testing.T) {
	w, c := stand(t, Options{Every: 20 * time.Millisecond})
	w.mute = true
	w.rows["p"] = &queue.Described{Instance: "p", Status: queue.StatusPending, Waits: []queue.GateWait{{Event: 1, Gate: "nap", Position: 2}}}
	for _, status := range []Status{"", Pending} {
		n := 0
		for d, err := range c.List(soon(t), ListOptions{Status: status}) {
			ok(t, err)
			if n++; d.Instance != "p" {
				t.Errorf("%+v", d)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d", status, n)
		}
	}
	d, err := c.Describe(soon(t), "p")
	if err != nil || len(d.LimitWaits) != 1 || d.LimitWaits[0].Position != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if err := c.Purge(soon(t), "p"); !errors.Is(err, ErrRunning) {
		t.Error(err)
	}
}
