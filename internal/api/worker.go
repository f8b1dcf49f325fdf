package api

import "github.com/pawlrun/pawl/pkg/client"

// Worker is a worker that answered.
type Worker struct {
	Name        string      `json:"name"`
	Host        string      `json:"host"`
	PID         int         `json:"pid"`
	Since       string      `json:"since"`
	Activities  []string    `json:"activities"`
	Queues      []string    `json:"queues"`
	Concurrency int         `json:"concurrency"` // of each queue
	Running     int         `json:"running"`     // without the abandoned ones
	Abandoned   []Abandoned `json:"abandoned"`
	NotReady    string      `json:"not_ready,omitempty"`
	LastError   string      `json:"last_error,omitempty"`
	LastErrorAt string      `json:"last_error_at,omitempty"`
}

// Abandoned is an activity that runs although its grace period after a cancellation is over.
type Abandoned struct {
	Activity string `json:"activity"`
	Instance string `json:"instance"`
	Since    string `json:"since"`
}

// WorkerOf describes a worker.
func WorkerOf(w client.WorkerInfo) Worker {
	out := Worker{
		Name: w.Name, Host: w.Host, PID: w.PID, Since: Timestamp(w.Since), Activities: w.Activities, Queues: w.Queues, Concurrency: w.Concurrency,
		Running: w.Running, Abandoned: []Abandoned{}, NotReady: w.NotReady, LastError: w.LastError, LastErrorAt: Timestamp(w.LastErrorAt),
	}
	for _, a := range w.Abandoned {
		out.Abandoned = append(out.Abandoned, Abandoned{Activity: a.Activity, Instance: a.Instance, Since: Timestamp(a.Since)})
	}
	return out
}
