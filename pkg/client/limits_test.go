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
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// limits are the limits of the owner. They are set before the first request, and returned in small pages.
type limits struct {
	policies []request.LevelPolicy
	stats    map[int][]request.LimitStats // by partition
	waiters  []request.Waiter             // returned for every limit
	seen     int                          // requests
	lost     int                          // partition whose limits cannot be listed; 0: none
}

func (l *limits) requested(p int, q request.Request) (request.Reply, error) {
	l.seen++
	find := func(action, key string) (*request.LimitPage, error) {
		for _, rows := range l.stats {
			if i := slices.IndexFunc(rows, func(s request.LimitStats) bool { return s.Action == action && s.Key == key }); i >= 0 {
				return &request.LimitPage{Limits: rows[i : i+1]}, nil
			}
		}
		return nil, &request.Problem{Code: request.ProblemNotFound, Message: "no limit of " + action}
	}
	switch q := q.(type) {
	case *request.Limits:
		if p == l.lost && p != 0 {
			return nil, &request.Problem{Code: request.ProblemInternal, Message: "no idea"}
		}
		from, _ := strconv.Atoi(q.Cursor)
		rows := slices.DeleteFunc(slices.Clone(l.stats[p]), func(s request.LimitStats) bool { return q.Action != "" && s.Action != q.Action })
		to := min(from+2, len(rows))
		r := &request.LimitPage{Limits: rows[from:to]}
		if to < len(rows) {
			r.Cursor = strconv.Itoa(to)
		}
		return r, nil
	case *request.Limit:
		return find(q.Action, q.Key)
	case *request.Holders:
		_, err := find(q.Action, q.Key)
		return &request.WaiterPage{Waiters: []request.Waiter{{Instance: "h"}}[:min(1, q.Limit)]}, err
	case *request.Waiters:
		_, err := find(q.Action, q.Key)
		from, _ := strconv.Atoi(q.Cursor)
		to := min(from+3, len(l.waiters))
		r := &request.WaiterPage{Waiters: l.waiters[from:to]}
		if to < len(l.waiters) {
			r.Cursor = strconv.Itoa(to)
		}
		return r, err
	case *request.Clear:
		_, err := find(q.Action, q.Key)
		return &request.Cleared{Count: len(l.waiters)}, err
	case *request.Policies:
		return &request.PolicyList{Policies: l.policies}, nil
	case *request.SetPolicy:
		l.policies = append(l.policies, request.LevelPolicy{Level: q.Level, Policy: q.Policy})
		return new(request.Done), nil
	case *request.DeletePolicy:
		was := len(l.policies)
		l.policies = slices.DeleteFunc(l.policies, func(p request.LevelPolicy) bool { return p.Level == q.Level })
		if len(l.policies) == was {
			return nil, &request.Problem{Code: request.ProblemNotFound, Message: "no policy was set for " + q.Level}
		}
		return new(request.Done), nil
	default:
		return nil, &request.Problem{Code: request.ProblemBadRequest, Message: "?"}
	}
}

func TestPolicyIsSetListedAndDeletedAndAnInvalidPolicyIsNotSent(t *testing.T) {
	w, c := startOwner(t, Options{})
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
	before := w.limits.seen
	var bad *history.PolicyError
	if err := c.SetPolicy(soon(t), "global", Policy{Rate: 1}); !errors.As(err, &bad) {
		t.Error(err)
	}
	for _, level := range []string{"charge-card", "", "action:a b"} {
		if err := errors.Join(c.SetPolicy(soon(t), level, p), nil); !errors.Is(err, transport.ErrBadName) {
			t.Error(err)
		}
		if err := c.DeletePolicy(soon(t), level); !errors.Is(err, transport.ErrBadName) {
			t.Error(err)
		}
	}
	if w.limits.seen != before {
		t.Errorf("%d requests were made", w.limits.seen-before)
	}
}

// addKeyedLimits adds limits of two actions to all partitions.
func addKeyedLimits(w *owner) {
	w.limits.stats = map[int][]request.LimitStats{0: {{Action: "nap", Waiting: 1}}}
	for i := range 10 {
		g := request.LimitStats{Action: "charge", Key: fmt.Sprint("k", i), Waiting: 2, Active: 1, Enqueued: 9, Completed: 4,
			Rejected: 5, TimedOut: 1, Withdrawn: 2, Cleared: 3, Policy: history.Policy{Concurrency: 3}}
		switch i {
		case 3:
			g.OldestEnqueued, g.LimitedUntil = 70, 900
		case 4:
			g.OldestEnqueued, g.LimitedUntil, g.Deadlocked = 50, 1000, true
		}
		w.limits.stats[i%4] = append(w.limits.stats[i%4], g)
	}
}

func TestStatsOfAnActionWithKeysAreTheSumOfItsLimits(t *testing.T) {
	w, c := startOwner(t, Options{})
	addKeyedLimits(w)
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
	w.limits.lost = 2
	if _, err := c.QueueStats(soon(t), "charge", ""); err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "1 of 4 partitions") {
		t.Errorf("an incomplete sum: %v", err)
	}
}

func TestInputWithoutAKeyDoesNotHideOtherLimits(t *testing.T) {
	w, c := startOwner(t, Options{})
	policy := history.Policy{Concurrency: 1, Key: "tenant"}
	at := func(key string, waiting uint64) request.LimitStats {
		return request.LimitStats{Action: "debit", Key: key, Waiting: waiting, Policy: policy}
	}
	w.limits.stats = map[int][]request.LimitStats{1: {at("", 3), at("acme", 5)}, 2: {at("other", 7)}}
	want := QueueInfo{Action: "debit", Keys: 3, Waiting: 15, Policy: PolicyOf(policy)}
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	w.limits.stats = map[int][]request.LimitStats{1: {at("", 3)}}
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != queueOf(at("", 3)) {
		t.Errorf("a single limit: %+v, %v", got, err)
	}
	w.limits.stats = map[int][]request.LimitStats{1: {at("", 0), at("acme", 5)}}
	want.Keys, want.Waiting = 1, 5
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != want {
		t.Errorf("all inputs had a key: %+v, %v, want %+v", got, err, want)
	}
	policy.Key, want.Policy.Key = "", ""
	w.limits.stats = map[int][]request.LimitStats{1: {at("", 0), at("acme", 5)}}
	if got, err := c.QueueStats(soon(t), "debit", ""); err != nil || got != want {
		t.Errorf("no callers since the key was removed: %+v, %v, want %+v", got, err, want)
	}
}

func TestLimitsAreListedInPagesWithMissingPartitions(t *testing.T) {
	w, c := startOwner(t, Options{})
	addKeyedLimits(w)
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
	for range c.Queues(soon(t), "") { // the loop may end early
		break
	}
	w.limits.lost = 1
	if got, err := names("charge"); err == nil || !strings.Contains(err.Error(), "1 of 4 partitions") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := names("a b"); !errors.Is(err, pawl.ErrBadName) {
		t.Error(err)
	}
}

func TestWaitersAreListedInOrderAndRejected(t *testing.T) {
	w, c := startOwner(t, Options{})
	addKeyedLimits(w)
	for i := range 10 {
		w.limits.waiters = append(w.limits.waiters, request.Waiter{Position: uint64(i + 1), Instance: fmt.Sprint("i-", i)})
	}
	var got []Waiter
	for x, err := range c.Waiters(soon(t), "charge", "k1") {
		ok(t, err)
		got = append(got, x)
	}
	if !reflect.DeepEqual(got, convert(w.limits.waiters, waiterOf)) {
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

func TestPendingInstanceIsListedAndItsPurgeIsRejected(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: 20 * time.Millisecond})
	w.mute = true
	w.rows["p"] = &request.Description{
		Summary: request.Summary{Instance: "p", Status: request.StatusPending}, LimitWaits: []request.LimitWait{{Event: 1, Action: "nap", Position: 2}},
	}
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
