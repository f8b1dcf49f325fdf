// Package verdict decides the outcome of a fault campaign. It compares the calls that clients logged, the runs that
// activities recorded in their ledger, and the state that Pawl stored.
//
// It checks for every instance that a client intended to start:
//
//   - an accepted start has resulted in an instance; otherwise it is lost;
//   - the instance has ended; otherwise it is stalled, because all faults are healed and all calls were made by then;
//   - it ended with a result that its input permits, and every client that received a result received the same one;
//   - its events were received once and in order;
//   - no activity has two completions, and none has a completion after its cancellation;
//   - a retry has not repeated any activity that was completed;
//   - every completion belongs to an activity that a worker has run under that key;
//   - the counted runs of a limited activity never overlapped more than the limit permits.
package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/tests/chaos/work"
)

// Instance is the state of an instance that Pawl has stored.
type Instance struct {
	Exists     bool
	Ended      bool
	Outcome    string // as returned by work.Outcome
	Status     string
	Activities []Activity // activities of the latest execution
}

// Activity is an activity in a history.
type Activity struct {
	ID              uint64 // id of the event that scheduled it
	Name, Key       string
	Completions     int
	Succeeded       bool
	Claim           uint32 // claim of the recorded completion
	AfterCancelling int    // completions after a cancellation
}

// Evidence is the input of a verdict.
type Evidence struct {
	Calls []work.Call // calls of all clients
	Runs  []work.Run
	Find  func(id string) (Instance, error)
	// Rollback means that Redis may have lost acknowledged writes: the runs of lost turns are in the ledger but in no
	// history, and their decisions were made again.
	Rollback bool
	Rotated  time.Time // when the payload key was exchanged: a turn that was lost before and decided again afterwards makes other calls
}

// Verdict is the result of a campaign. Each finding names its instance.
type Verdict struct {
	Instances  int
	Events     int
	Reruns     int // runs of activities in addition to the first of each call; activities run at least once
	Lost       []string
	Duplicated []string
	Violations []string
	Stalled    []string
	Errors     map[string]int // number of errors that clients received, by text
}

// Findings returns all findings, with their kinds.
func (v *Verdict) Findings() []string {
	var out []string
	for _, f := range []struct {
		kind string
		all  []string
	}{{"lost", v.Lost}, {"duplicated", v.Duplicated}, {"violation", v.Violations}, {"stalled", v.Stalled}} {
		for _, text := range f.all {
			out = append(out, f.kind+": "+text)
		}
	}
	return out
}

// client is what the clients have recorded about an instance.
type client struct {
	accepted bool
	results  []string
}

// Of returns the verdict on the evidence.
func Of(e Evidence) (*Verdict, error) {
	v := &Verdict{Errors: map[string]int{}}
	calls := v.calls(e.Calls)
	ran, steps := map[string]bool{}, map[string]work.Run{} // by name and key; and the step of an instance that is retried
	for _, r := range e.Runs {
		if r.What == "step" && strings.HasPrefix(r.Instance, "mend-") {
			if was, ok := steps[r.Instance]; ok && was.Key != r.Key && !e.decidedAgain(was, r) {
				v.Violations = append(v.Violations, r.Instance+": its retry has run again what had completed")
			}
			steps[r.Instance] = r
		}
		if strings.Contains(r.What, ".") {
			continue
		}
		if ran[r.What+r.Key] && r.What != "flaky" { // retries share a key
			v.Reruns++
		}
		ran[r.What+r.Key] = true
	}
	recorded := map[recordedRun]bool{}
	for id, c := range calls {
		inst, err := v.instance(e, id, c)
		if err != nil {
			return nil, err
		}
		v.activities(id, inst, ran, recorded)
	}
	if !e.Rollback {
		v.limits(e.Runs, recorded)
	}
	for _, f := range [][]string{v.Lost, v.Duplicated, v.Violations, v.Stalled} {
		slices.Sort(f)
	}
	return v, nil
}

// rotation is the maximum time for which members that are delayed use the previous key.
const rotation = 15 * time.Second

// decidedAgain reports whether two runs may belong to the same call, made before and after a rollback, with the payload key
// exchanged in between.
func (e *Evidence) decidedAgain(first, second work.Run) bool {
	return e.Rollback && first.At.Before(e.Rotated.Add(rotation)) && second.At.After(e.Rotated)
}

func (v *Verdict) calls(all []work.Call) map[string]*client {
	out := map[string]*client{}
	for _, c := range all {
		i := out[c.ID]
		if i == nil {
			i = &client{}
			out[c.ID] = i
			v.Instances++
		}
		switch {
		case c.Error != "":
			v.Errors[errorText(c)]++
		case c.Call == work.Start:
			i.accepted = true
			if rest, ok := strings.CutPrefix(c.ID, "pair-"); ok && out["listener-"+rest] == nil {
				out["listener-"+rest] = &client{} // its existence follows from the result of the pair
				v.Instances++
			}
		case c.Call == work.Send:
			v.Events++
		case c.Call == work.Result:
			i.results = append(i.results, c.Outcome)
		}
	}
	return out
}

// errorText returns the text of an error without the id of its instance.
func errorText(c work.Call) string {
	return c.Call + ": " + strings.ReplaceAll(c.Error, c.ID, "ID")
}

func (v *Verdict) instance(e Evidence, id string, c *client) (Instance, error) {
	k := work.KindOf(id)
	if k == nil {
		return Instance{}, fmt.Errorf("verdict: the log has the unknown instance %q", id)
	}
	inst, err := e.Find(id)
	if err != nil {
		return inst, fmt.Errorf("verdict: %s: %w", id, err)
	}
	accepted := c.accepted
	if rest, ok := strings.CutPrefix(id, "listener-"); ok {
		pair, err := e.Find("pair-" + rest)
		if err != nil {
			return inst, fmt.Errorf("verdict: %s: %w", id, err)
		}
		accepted = pair.Ended && pair.Outcome == "sent"
	}
	want := k.Want(work.InputOf(id))
	if e.Rollback && k.Rolled != "" {
		want = append(slices.Clone(want), k.Rolled)
	}
	switch {
	case !inst.Exists && accepted:
		v.Lost = append(v.Lost, id+": its start was accepted, and the instance does not exist")
	case !inst.Exists:
	case !inst.Ended:
		v.Stalled = append(v.Stalled, fmt.Sprintf("%s: has not ended, status %s", id, inst.Status))
	case !slices.Contains(want, inst.Outcome):
		text := fmt.Sprintf("%s: ended with %q, want %q", id, inst.Outcome, want)
		if k.Name == "mail" && repeats(inst.Outcome) {
			v.Duplicated = append(v.Duplicated, text)
		} else {
			v.Violations = append(v.Violations, text)
		}
	}
	for _, r := range c.results {
		if e.Rollback && slices.Contains(want, r) {
			continue // the end that the client received was lost, and the following turns were decided again
		}
		if inst.Ended && r != inst.Outcome {
			v.Violations = append(v.Violations, fmt.Sprintf("%s: a client received %q, the instance ended with %q", id, r, inst.Outcome))
		}
	}
	return inst, nil
}

// repeats reports whether a word occurs twice.
func repeats(s string) bool {
	words := strings.Fields(s)
	slices.Sort(words)
	return len(slices.Compact(words)) < len(strings.Fields(s))
}

// recordedRun is a run whose completion is in a history.
type recordedRun struct {
	name, key string
	claim     uint32
}

func (v *Verdict) activities(id string, inst Instance, ran map[string]bool, recorded map[recordedRun]bool) {
	undone := false
	for _, a := range inst.Activities {
		name := fmt.Sprintf("%s: activity %d (%s)", id, a.ID, a.Name)
		if a.Completions > 1 {
			v.Duplicated = append(v.Duplicated, fmt.Sprintf("%s has %d completions", name, a.Completions))
		}
		if a.AfterCancelling > 0 {
			v.Violations = append(v.Violations, name+" has a completion after its cancellation")
		}
		if a.Succeeded && !ran[a.Name+a.Key] {
			v.Violations = append(v.Violations, name+" has completed, and no worker has run it")
		}
		if a.Succeeded {
			recorded[recordedRun{a.Name, a.Key, a.Claim}] = true
		}
		undone = undone || a.Name == "undo" && a.Succeeded
	}
	if strings.HasPrefix(id, "undo-") && inst.Ended && !undone {
		v.Violations = append(v.Violations, id+": has ended, and did not run the activity of its cancellation")
	}
}

// limits checks the number of concurrent runs of Seat for each tenant.
func (v *Verdict) limits(runs []work.Run, recorded map[recordedRun]bool) {
	type edge struct {
		at   time.Time
		step int
	}
	begun, edges := map[recordedRun]work.Run{}, map[string][]edge{}
	for _, r := range runs {
		key := recordedRun{"seat", r.Key, r.Claim}
		if !recorded[key] {
			continue
		}
		switch r.What {
		case "seat":
			begun[key] = r
		case "seat.end":
			if b, ok := begun[key]; ok {
				edges[r.Tenant] = append(edges[r.Tenant], edge{b.At, 1}, edge{r.At, -1})
			}
		}
	}
	for tenant, all := range edges {
		slices.SortFunc(all, func(a, b edge) int {
			if c := a.at.Compare(b.at); c != 0 {
				return c
			}
			return a.step - b.step
		})
		n := 0
		for _, e := range all {
			if n += e.step; n > work.Seats {
				v.Violations = append(v.Violations, fmt.Sprintf("%s: %d runs of seat at %s, the limit is %d", tenant, n, e.at.Format(time.StampMilli), work.Seats))
				break
			}
		}
	}
}
