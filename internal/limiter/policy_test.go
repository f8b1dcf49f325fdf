package limiter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMostSpecificPolicyIsInForce(t *testing.T) {
	p := func(n uint32) history.Policy { return history.Policy{Concurrency: n} }
	const action, group, global = "action:a", "group:g", "global"
	code := func(n uint32) *history.Policy {
		if n == 0 {
			return nil
		}
		return &history.Policy{Concurrency: n}
	}
	for name, c := range map[string]struct {
		set                      map[string]history.Policy
		inCode, ofGroup, overall uint32
		group                    string
		level                    string
		want                     uint32
	}{
		"none":                      {},
		"action in code":            {inCode: 1, ofGroup: 2, overall: 3, group: "g", level: "action", want: 1},
		"action at run time":        {set: map[string]history.Policy{action: p(9), group: p(8), global: p(7)}, inCode: 1, level: "action", want: 9},
		"action in code, group set": {set: map[string]history.Policy{group: p(8), global: p(7)}, inCode: 1, group: "g", level: "action", want: 1},
		"group in code":             {ofGroup: 2, overall: 3, group: "g", level: "group", want: 2},
		"group at run time":         {set: map[string]history.Policy{group: p(8), global: p(7)}, ofGroup: 2, group: "g", level: "group", want: 8},
		"another group":             {set: map[string]history.Policy{group: p(8)}, overall: 3, group: "other", level: "global", want: 3},
		"a group that has none":     {overall: 3, group: "g", level: "global", want: 3},
		"global at run time":        {set: map[string]history.Policy{global: p(7)}, overall: 3, level: "global", want: 7},
		"another action":            {set: map[string]history.Policy{"action:b": p(9)}},
		"a policy without limits":   {set: map[string]history.Policy{action: {}}, inCode: 1, overall: 3, level: "action", want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := &limit.Overrides{Version: 4, Policies: c.set}
			d := history.Declared{Action: code(c.inCode), Group: c.group, GroupPolicy: code(c.ofGroup)}
			f, ok := o.Resolve("a", d, code(c.overall))
			if ok != (c.level != "") || f.Level != c.level || f.Policy.Concurrency != c.want {
				t.Errorf("%+v, %v", f, ok)
			}
			if ok && (f.Version != 4 || f.Declared != d) {
				t.Errorf("%+v", f)
			}
		})
	}
	pause := history.Policy{Paused: true, PausedBy: "ada", PausedFor: "stocktaking", PausedAt: 7}
	set := &limit.Overrides{Policies: map[string]history.Policy{"pause:a": pause}}
	if f, ok := set.Resolve("a", history.Declared{}, nil); !ok || f.Policy != pause || f.Level != "action" {
		t.Errorf("paused without a policy: %+v, %v", f, ok)
	}
	pause.Concurrency = 2
	if f, ok := set.Resolve("a", history.Declared{Action: code(2)}, nil); !ok || f.Policy != pause {
		t.Errorf("paused: %+v, %v", f, ok)
	}
	var none *limit.Overrides
	if f, ok := none.Resolve("a", history.Declared{Action: code(1)}, nil); !ok || f.Policy.Concurrency != 1 || f.Version != 0 {
		t.Errorf("without overrides: %+v, %v", f, ok)
	}
}

func TestPoliciesAreSetAtRunTime(t *testing.T) { each(t, runTimeCases()) }

func runTimeCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"a policy is set, read and deleted, and each change raises the version": func(b *harness) {
			o, err := b.limits.Overrides(b.Context())
			if err != nil || o.Version != 0 || len(o.Policies) != 0 {
				b.Fatalf("%+v, %v", o, err)
			}
			want := history.Policy{Concurrency: 5, Rate: 3, RateWindow: 1000, Quota: 9, QuotaWindow: 60_000, Key: "customer.id", QueueLimit: 7, QueueTimeout: -1, Reject: true}
			v1, err := b.limits.SetPolicy(b.Context(), "action:charge-card", want)
			b.must(err)
			v2, err := b.limits.SetPolicy(b.Context(), "global", history.Policy{})
			b.must(err)
			if v1 < 1_000_000_000_000 || v2 <= v1 {
				b.Errorf("versions %d and %d", v1, v2)
			}
			o, err = b.limits.Overrides(b.Context())
			if err != nil || o.Version != v2 || len(o.Policies) != 2 || o.Policies["action:charge-card"] != want {
				b.Errorf("%+v, %v", o, err)
			}
			was, v3, err := b.limits.DeletePolicy(b.Context(), "global")
			if err != nil || !was || v3 <= v2 {
				b.Errorf("%v, %d, %v", was, v3, err)
			}
			was, v4, err := b.limits.DeletePolicy(b.Context(), "global")
			if err != nil || was || v4 != v3 {
				b.Errorf("deleted again: %v, %d, %v", was, v4, err)
			}
			o, err = b.limits.Overrides(b.Context())
			if err != nil || o.Version != v3 || len(o.Policies) != 1 {
				b.Errorf("%+v, %v", o, err)
			}
		},
		"an unknown level or an invalid policy is rejected": func(b *harness) {
			for _, level := range []string{"", "version", "action:", "group:", "charge-card", "Global"} {
				if _, err := b.limits.SetPolicy(b.Context(), level, concurrency(1)); !errors.Is(err, limiter.ErrLevel) {
					b.Errorf("set at %q: %v", level, err)
				}
				if _, _, err := b.limits.DeletePolicy(b.Context(), level); !errors.Is(err, limiter.ErrLevel) {
					b.Errorf("deleted at %q: %v", level, err)
				}
			}
			for level, p := range map[string]history.Policy{
				"global": {Rate: 1}, "action:a": {Paused: true}, "action:b": {PausedFor: "x"}, "pause:a": {}, "pause:b": {Paused: true, Concurrency: 1},
				"pause:c": {Paused: true, PausedFor: strings.Repeat("x", history.MaxPausedFor+1)},
			} {
				var bad *history.PolicyError
				if _, err := b.limits.SetPolicy(b.Context(), level, p); !errors.As(err, &bad) {
					b.Errorf("%s %+v: %v", level, p, err)
				}
			}
		},
		"the version is raised above one that Redis has lost, once": func(b *harness) {
			lost := uint64(b.now()) + 60_000
			var versions []uint64
			for range 2 {
				b.must(b.limits.BumpPolicyVersion(b.Context(), lost))
				o, err := b.limits.Overrides(b.Context())
				if err != nil || len(o.Policies) != 0 {
					b.Errorf("%+v, %v", o, err)
				}
				versions = append(versions, o.Version)
			}
			if versions[0] != lost+1 || versions[1] != versions[0] {
				b.Errorf("raised above %d: %v", lost, versions)
			}
		},
		"the version keeps increasing when Redis has lost the latest one": func(b *harness) {
			v1, err := b.limits.SetPolicy(b.Context(), "global", concurrency(1))
			b.must(err)
			b.must(b.rdb.Del(b.Context(), b.space.Policies()).Err())
			for b.now() <= int64(v1) {
			}
			v2, err := b.limits.SetPolicy(b.Context(), "global", concurrency(2))
			if err != nil || v2 <= v1 {
				b.Errorf("version %d after %d, %v", v2, v1, err)
			}
		},
	}
}
