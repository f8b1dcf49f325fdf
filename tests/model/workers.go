package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// claim claims a task; its token is the name that the activity returns.
func (w *World) claim(task memstore.Claim) {
	w.Claims++
	g := task
	g.Token = "t" + strconv.Itoa(w.Claims)
	if a, _ := w.Store.Claim(w.Now, g, "w"); a != memstore.Acquired {
		return
	}
	for _, r := range w.Runs {
		if r.claim.Instance == g.Instance && r.claim.Effect == g.Effect && r.trust > w.Now && !w.StoreRolledBack {
			w.Broken = fmt.Sprintf("two workers have the lease of event %d", g.Activity)
		}
	}
	w.Runs = append(w.Runs, run{g, task.Token, w.Now + ttl})
}

func (w *World) ack(i int) {
	r := w.Runs[i]
	w.Runs = slices.Delete(w.Runs, i, i+1)
	switch a := w.complete(r.claim, returns(r.claim, r.name)); {
	case a == memstore.OK && r.trust <= w.Now:
		w.Broken = fmt.Sprintf("the acknowledgement of event %d was accepted after its lease", r.claim.Activity)
	case a == memstore.OK && w.Saved != nil: // otherwise no rollback can lose it
		g := r.claim
		w.Acked = append(w.Acked, g)
	case a == memstore.Gone:
		w.Store.Report(r.claim.Instance, memstore.Place{Execution: r.claim.Execution, Event: r.claim.Activity}, "stopped", false)
	}
}

// returns ends an activity.
func returns(g memstore.Claim, result string) history.Event {
	return &history.ActivityCompleted{Scheduled: g.Activity, Result: history.Payload{Type: history.TypeJSON, Data: []byte(result)}}
}

// complete acknowledges an activity, and sends a doorbell if the inbox was empty.
func (w *World) complete(g memstore.Claim, end history.Event) memstore.Answer {
	a, pushed, first := w.Store.Complete(w.Now, g, end)
	if first && w.setup.Bare {
		pushed = nil
	}
	if first {
		w.Doorbells = append(w.Doorbells, message.Doorbell{Instance: g.Instance, Effect: g.Effect, Element: pushed})
	}
	return a
}

func (w *World) renew(i int) {
	if w.Store.RenewClaim(w.Now, w.Runs[i].claim) == memstore.OK {
		w.Runs[i].trust = w.Now + ttl
		return
	}
	w.Runs = slices.Delete(w.Runs, i, i+1)
}

// doubted handles a hint about a claim that no worker runs: its worker repeats the ack that it
// has sent, and returns any other activity.
func (w *World) doubted(g memstore.Claim) {
	if slices.Contains(w.Acked, g) {
		w.complete(g, returns(g, w.named(g)))
		return
	}
	w.Store.Abandon(w.Now, g, true, 0)
}

// named returns the name with which an activity was called, from its history.
func (w *World) named(g memstore.Claim) string {
	events, _ := memstore.Events(w.Store.Get(g.Instance).Histories[g.Execution])
	for _, ev := range events {
		if a, ok := ev.(*history.ActivityScheduled); ok && a.ID == g.Activity {
			return string(a.Payload.Data)
		}
	}
	return ""
}

// doubtful lists the claims that reappear in the store after a rollback, and that no worker runs.
func (w *World) doubtful() (all []memstore.Claim) {
	if !w.StoreRolledBack {
		return nil
	}
	for _, id := range w.IDs() {
		leases := w.Store.Get(id).Leases
		for _, at := range slices.SortedFunc(maps.Keys(leases), byPlace) {
			l := leases[at]
			g := memstore.Claim{Instance: id, Execution: at.Execution, Activity: at.Event, Effect: l.Effect, Token: l.Token}
			if l.Token != "" && !slices.ContainsFunc(w.Runs, func(r run) bool { return r.claim == g }) {
				all = append(all, g)
			}
		}
	}
	return all
}

func byPlace(p, q memstore.Place) int {
	return cmp.Or(cmp.Compare(p.Execution, q.Execution), cmp.Compare(p.Event, q.Event))
}

// emptyBody returns the body of a failed answer.
func emptyBody(k core.MessageKind) any {
	switch k {
	case core.InstanceLoaded:
		return record.Loaded{}
	case core.HistoryRead:
		return record.RewindSource{}
	case core.InboxRead:
		return [][]byte(nil)
	case core.HeadRead:
		return ""
	case core.LimitSwept:
		return limit.SweepReply{}
	case core.LimitRescheduled:
		return time.Second
	case core.UnwantedFound:
		return (*core.UnwantedMembers)(nil)
	case core.PurgeAnswered:
		return int64(0)
	default:
		return nil
	}
}
