package api

import "github.com/pawlrun/pawl/pkg/client"

// Worker is a worker that answered.
type Worker struct {
	Name        string            `json:"name"`
	Host        string            `json:"host"`
	PID         int               `json:"pid"`
	Since       string            `json:"since"`
	Activities  []string          `json:"activities"`
	Queues      []string          `json:"queues"`
	Concurrency int               `json:"concurrency"` // slots of each queue
	Running     int               `json:"running"`     // running activities, without the abandoned ones
	Oldest      []RunningActivity `json:"oldest"`      // up to 50 running activities, the oldest first
	Abandoned   []RunningActivity `json:"abandoned"`
	NotReady    string            `json:"not_ready,omitempty"`
	LastError   string            `json:"last_error,omitempty"`
	LastErrorAt string            `json:"last_error_at,omitempty"`
}

// RunningActivity is a running activity. In Abandoned, its grace period after a cancellation is over.
type RunningActivity struct {
	Activity string `json:"activity"`
	Instance string `json:"instance"`
	Since    string `json:"since"`
	Stack    string `json:"stack,omitempty"` // goroutine stack; only of the first 20 in Abandoned
}

// WorkerOf converts the description of a worker.
func WorkerOf(w client.WorkerInfo) Worker {
	return Worker{
		Name: w.Name, Host: w.Host, PID: w.PID, Since: Timestamp(w.Since), Activities: w.Activities, Queues: w.Queues, Concurrency: w.Concurrency,
		Running: w.Running, Oldest: runningOf(w.Oldest), Abandoned: runningOf(w.Abandoned), NotReady: w.NotReady, LastError: w.LastError, LastErrorAt: Timestamp(w.LastErrorAt),
	}
}

func runningOf(all []client.RunningActivity) []RunningActivity {
	out := make([]RunningActivity, len(all))
	for i, a := range all {
		out[i] = RunningActivity{Activity: a.Activity, Instance: a.Instance, Since: Timestamp(a.Since), Stack: a.Stack}
	}
	return out
}
