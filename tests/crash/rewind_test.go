package crash

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// The only orchestrator dies at one crash point after another while failed instances are retried, and again while they are
// rewound. The external ledger of their activities contains no second run of a step that was completed in a history.
func TestRetriedAndRewoundInstancesRunNothingAgainOverCrashes(t *testing.T) {
	t.Parallel()
	// If a lease expired on a busy machine, an activity would run twice.
	r := repairs{harness: newHarness(t, startServers(t), "FLEET_OWNER_TTL=600ms", "PAWL_LEASE_TTL=60s"), n: 10}
	r.worker("worker")
	r.owner = r.orchestrator("orchestrator")
	r.join()
	for i := range r.n {
		_, err := client.Start(r.ctx, r.Client, work.Repair, r.id(i), i)
		r.must(err)
	}
	for i := range r.n {
		if end := r.End(within, r.id(i)); end.Kind() != history.KindFailed {
			t.Fatalf("%s ended with %T %+v", r.id(i), end, end)
		}
	}
	want := r.runs()
	for what := range want {
		if strings.HasPrefix(what, "fragile ") {
			want[what]++
		}
	}

	points := []string{"orchestrator.ingested", "orchestrator.rewound", "orchestrator.turned", "orchestrator.committed", "orchestrator.published"}
	r.request(points, func(ctx context.Context, id string) error {
		_, err := r.Client.Retry(ctx, id, client.Reason("mended"))
		return err
	})
	if got := r.runs(); !maps.Equal(got, want) {
		t.Errorf("after the retries:\n%v\nwant:\n%v", got, want)
	}
	r.request(points[:4], func(ctx context.Context, id string) error { // no activity runs, so no task is published
		_, err := r.Client.Rewind(ctx, id, work.RewindEvent)
		return err
	})
	if got := r.runs(); !maps.Equal(got, want) {
		t.Errorf("after the rewinds:\n%v\nwant:\n%v", got, want)
	}
	r.check()
}

// repairs are n instances that are retried and rewound.
type repairs struct {
	*harness
	n     int
	owner *stack.Process
}

func (r *repairs) id(i int) string { return fmt.Sprintf("repair-%d", i) }

// request sends a request to each instance while the orchestrator dies at each point, and waits for the results.
func (r *repairs) request(points []string, do func(ctx context.Context, id string) error) {
	r.t.Helper()
	r.owner.Stop()
	answers := make(chan error, r.n)
	ctx, stop := context.WithTimeout(r.ctx, 2*within) // without a deadline, a request is repeated for 30 s only
	defer stop()
	for p, point := range points {
		victim := r.orchestrator("orchestrator", "PAWL_FAILPOINT="+point)
		for i := p; i < r.n; i += len(points) {
			go func() { answers <- do(ctx, r.id(i)) }()
		}
		died(r.t, victim)
	}
	r.owner = r.orchestrator("orchestrator")
	for range r.n {
		r.must(<-answers)
	}
	for i := range r.n {
		end := r.End(within, r.id(i))
		if c, ok := end.(*history.Completed); !ok || string(c.Result.Data) != fmt.Sprint(work.RepairResult(i)) {
			r.t.Errorf("%s ended with %T %+v", r.id(i), end, end)
		}
	}
}

// runs counts the runs of each activity, by its instance and its key.
func (r *repairs) runs() map[string]int {
	all := make(map[string]int)
	for _, f := range r.lines("step", "fragile") {
		all[f[0]+" "+f[1]+" "+f[3]]++
	}
	return all
}
