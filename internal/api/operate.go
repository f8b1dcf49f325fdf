package api

import (
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// Operated is the outcome of the request of an operator.
type Operated struct {
	Instance  string `json:"instance"`
	Status    string `json:"status"`
	Execution uint64 `json:"execution"`
}

// OperatedOf converts the outcome of an operator's request.
func OperatedOf(o client.Operated) Operated {
	return Operated{Instance: o.Instance, Status: string(o.Status), Execution: o.Execution}
}

// RewindPlan is what a rewind, or a retry, would do.
type RewindPlan struct {
	Keep    uint64       `json:"keep"`     // last event that is kept; 0: the instance restarts from the beginning
	Reruns  []RewindItem `json:"reruns"`   // activities that run again
	Awaited []RewindItem `json:"awaited"`  // children that are awaited again
	Undone  []RewindItem `json:"undone"`   // children whose starts are discarded
	PutBack int          `json:"put_back"` // inputs that are received again
}

// RewindItem is an activity or a child of a plan.
type RewindItem struct {
	Event    uint64 `json:"event"`
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"` // instance id of a child
}

// RewindPlanOf converts a plan.
func RewindPlanOf(p *history.RewindPlan) RewindPlan {
	out := RewindPlan{Keep: p.Keep, PutBack: len(p.PutBack), Reruns: []RewindItem{}}
	for _, e := range p.Reruns {
		out.Reruns = append(out.Reruns, RewindItem{Event: e.ID, Name: e.Name})
	}
	out.Awaited, out.Undone = rewindItems(p.Awaited), rewindItems(p.Undone)
	return out
}

func rewindItems(children []*history.ChildScheduled) []RewindItem {
	out := make([]RewindItem, len(children))
	for i, e := range children {
		out[i] = RewindItem{Event: e.ID, Name: e.Name, Instance: e.Instance}
	}
	return out
}
