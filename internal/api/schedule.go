package api

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/client"
)

// Schedule is a schedule with its state.
type Schedule struct {
	ID string `json:"id"`
	client.ScheduleState
}

// Schedules is a list of schedules that have not ended.
type Schedules struct {
	Schedules []Schedule `json:"schedules"`
	More      bool       `json:"more,omitempty"` // there are more than the limit of the request
}

// Times are the next times of a schedule, without jitter.
type Times struct {
	Times []string `json:"times"` // RFC 3339, UTC
}

// Registered are the names of the orchestrations and activities that the fleet has registered.
type Registered struct {
	Orchestrations []string `json:"orchestrations"` // in the orchestrator that answered
	Activities     []string `json:"activities"`     // in the workers that answered within half a second
}

// RegisteredOf collects the names.
func RegisteredOf(orchestrations []string, workers []client.WorkerInfo) Registered {
	r := Registered{Orchestrations: orchestrations, Activities: []string{}}
	for _, w := range workers {
		r.Activities = append(r.Activities, w.Activities...)
	}
	slices.Sort(r.Activities)
	r.Activities = slices.Compact(r.Activities)
	return r
}
