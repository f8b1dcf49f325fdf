package console

import (
	"context"
	"net/http"
	"sync"

	"github.com/pawlrun/pawl/pkg/client"
)

// Faults are faults that a demonstration injects into its own fleet, together with the work that it checks. Only pawl dev
// and pawl demo have them.
type Faults struct {
	List   []Fault
	Counts func() FaultCounts
}

// Fault is a fault that can be injected.
type Fault struct {
	ID, Name, Text string
	// Do starts work, disturbs it, waits for its end, and reports what happened.
	Do func(context.Context, *client.Client) (report string, err error)
}

// FaultCounts counts the work of all faults since the start of the process.
type FaultCounts struct {
	Instances, Activities int // that have ended
	Running               int // instances
	Lost                  int // instances without an outcome, or with activities without one
	Duplicated            int // activities with more than one outcome
}

// faults runs one fault at a time. It is safe for concurrent use.
type faults struct {
	Faults

	jobs *jobs

	mu      sync.Mutex
	running string // name of the running fault; empty: none
	reports []faultReport
}

type faultReport struct{ Name, Text, Class string }

const maxReports = 10

// faultsData is the page of faults.
type faultsData struct {
	FaultCounts

	List    []Fault
	Busy    string // name of the running fault; empty: none
	Reports []faultReport
}

func (f *faults) show(*request) (view, error) {
	f.mu.Lock()
	d := faultsData{List: f.List, Busy: f.running, Reports: append([]faultReport(nil), f.reports...)}
	f.mu.Unlock()
	d.FaultCounts = f.Counts()
	v := view{template: "faults", title: "Faults", section: "faults", data: d}
	if d.Busy != "" {
		v.refresh = "1"
	}
	return v, nil
}

func (f *faults) begin(q *request) (view, error) {
	for _, one := range f.List {
		if one.ID != q.PathValue("fault") {
			continue
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.running != "" {
			return view{}, &apiError{Status: http.StatusConflict, Detail: "Another fault is running: " + f.running + ".", Do: "wait for its end"}
		}
		f.running = one.Name
		f.jobs.run(func(ctx context.Context) {
			text, err := one.Do(ctx, q.client)
			r := faultReport{one.Name, text, "ok"}
			if err != nil {
				r.Text, r.Class = err.Error(), "bad"
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.running, f.reports = "", append([]faultReport{r}, f.reports...)
			f.reports = f.reports[:min(len(f.reports), maxReports)]
		})
		return view{redirect: "/faults"}, nil
	}
	return view{}, &apiError{Status: http.StatusNotFound, Detail: "There is no such fault."}
}
