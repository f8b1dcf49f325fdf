package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/tests/chaos/verdict"
	"github.com/pawlrun/pawl/tests/chaos/work"
)

// correct returns evidence of one instance of each kind without violations.
func correct() (verdict.Evidence, map[string]*verdict.Instance) {
	instances := map[string]*verdict.Instance{}
	var e verdict.Evidence
	at := time.Unix(1000, 0)
	for _, k := range work.Kinds() {
		id := k.Name + "-c1-00001"
		in := work.InputOf(id)
		inst := &verdict.Instance{Exists: true, Ended: true, Status: "completed", Outcome: k.Want(in)[0]}
		instances[id] = inst
		if k.Name == "listener" {
			continue
		}
		e.Calls = append(e.Calls, work.Call{ID: id, Call: work.Intend}, work.Call{ID: id, Call: work.Start})
		for range k.EventsOf(in) {
			e.Calls = append(e.Calls, work.Call{ID: id, Call: work.Send})
		}
		e.Calls = append(e.Calls, work.Call{ID: id, Call: work.Result, Outcome: inst.Outcome})
		name := map[string]string{"undo": "undo", "seat": "seat"}[k.Name]
		if name == "" {
			name = "step"
		}
		inst.Activities = []verdict.Activity{{ID: 2, Name: name, Key: id, Completions: 1, Succeeded: true, Claim: 1}}
		e.Runs = append(e.Runs, work.Run{What: name, Instance: id, Key: id, Claim: 1, At: at, Tenant: in.Tenant},
			work.Run{What: name + ".end", Instance: id, Key: id, Claim: 1, At: at.Add(time.Second), Tenant: in.Tenant})
	}
	e.Find = func(id string) (verdict.Instance, error) {
		if i := instances[id]; i != nil {
			return *i, nil
		}
		return verdict.Instance{}, nil
	}
	return e, instances
}

// Every kind of violation is found in its instance, and in no other.
func TestVerdictFindsEveryViolation(t *testing.T) {
	for _, c := range []struct {
		name    string
		mistake func(*verdict.Evidence, map[string]*verdict.Instance)
		want    string
	}{
		{"none", func(*verdict.Evidence, map[string]*verdict.Instance) {}, ""},
		{"lost start", func(_ *verdict.Evidence, all map[string]*verdict.Instance) { delete(all, "chain-c1-00001") }, "lost: chain-c1-00001"},
		{"lost child start", func(_ *verdict.Evidence, all map[string]*verdict.Instance) { delete(all, "listener-c1-00001") }, "lost: listener-c1-00001"},
		{"stalled", func(_ *verdict.Evidence, all map[string]*verdict.Instance) { all["fan-c1-00001"].Ended = false }, "stalled: fan-c1-00001"},
		{"wrong result", func(_ *verdict.Evidence, all map[string]*verdict.Instance) { all["tree-c1-00001"].Outcome = "99" }, "violation: tree-c1-00001: ended"},
		{"event twice", func(_ *verdict.Evidence, all map[string]*verdict.Instance) { all["mail-c1-00001"].Outcome = "1 1 2" }, "duplicated: mail-c1-00001"},
		{"events out of order", func(_ *verdict.Evidence, all map[string]*verdict.Instance) { all["mail-c1-00001"].Outcome = "9 8" }, "violation: mail-c1-00001"},
		{"two results", func(e *verdict.Evidence, _ map[string]*verdict.Instance) {
			e.Calls = append(e.Calls, work.Call{ID: "race-c1-00001", Call: work.Result, Outcome: "other"})
		}, "violation: race-c1-00001: a client received"},
		{"two permitted results after a rollback", func(e *verdict.Evidence, _ map[string]*verdict.Instance) {
			e.Rollback = true
			e.Calls = append(e.Calls, work.Call{ID: "door-c1-00001", Call: work.Result, Outcome: "rejected"})
		}, ""},
		{"outcome that requires a rollback", func(_ *verdict.Evidence, all map[string]*verdict.Instance) {
			all["reuse-c1-00001"].Outcome = work.Declined
		}, "violation: reuse-c1-00001: ended"},
		{"outcome of a rollback, after a rollback", func(e *verdict.Evidence, all map[string]*verdict.Instance) {
			e.Rollback = true
			all["reuse-c1-00001"].Outcome = work.Declined
		}, ""},
		{"two completions", func(_ *verdict.Evidence, all map[string]*verdict.Instance) {
			all["chain-c1-00001"].Activities[0].Completions = 2
		}, "duplicated: chain-c1-00001: activity 2"},
		{"completion after a cancellation", func(_ *verdict.Evidence, all map[string]*verdict.Instance) {
			all["chain-c1-00001"].Activities[0].AfterCancelling = 1
		}, "after its cancellation"},
		{"completion that was never run", func(e *verdict.Evidence, _ map[string]*verdict.Instance) { e.Runs = e.Runs[2:] }, "no worker has run it"},
		{"clean-up not run", func(_ *verdict.Evidence, all map[string]*verdict.Instance) {
			all["undo-c1-00001"].Activities = nil
		}, "did not run the activity of its cancellation"},
		{"retry repeats a completed activity", func(e *verdict.Evidence, _ map[string]*verdict.Instance) {
			e.Runs = append(e.Runs, work.Run{What: "step", Instance: "mend-c1-00001", Key: "other", Claim: 1})
		}, "violation: mend-c1-00001: its retry"},
		{"call of a turn that was lost, with another payload key", func(e *verdict.Evidence, _ map[string]*verdict.Instance) {
			e.Rollback, e.Rotated = true, time.Unix(1005, 0)
			e.Runs = append(e.Runs, work.Run{What: "step", Instance: "mend-c1-00001", Key: "other", Claim: 1, At: time.Unix(1010, 0)})
		}, ""},
		{"limit exceeded", func(e *verdict.Evidence, all map[string]*verdict.Instance) {
			for _, extra := range []string{"a", "b", "c"} {
				all["seat-c1-00001"].Activities = append(all["seat-c1-00001"].Activities, verdict.Activity{Name: "seat", Key: extra, Completions: 1, Succeeded: true, Claim: 1})
				for i, what := range []string{"seat", "seat.end"} {
					e.Runs = append(e.Runs, work.Run{What: what, Key: extra, Claim: 1, At: time.Unix(1000, int64(500+i)), Tenant: work.InputOf("seat-c1-00001").Tenant})
				}
			}
		}, "runs of seat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, all := correct()
			c.mistake(&e, all)
			v, err := verdict.Of(e)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(v.Findings(), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("findings:\n%s\nwant: %s", got, c.want)
			}
		})
	}
}
