package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
)

// A trip waits for an event. Each batch applies to three trips, and determines the status in which the next batch finds them.
func TestBatchesActOnTheInstancesOfTheirFilter(t *testing.T) {
	trip, leave := pawl.NewOrchestration[pawl.None, int]("trip"), pawl.NewEvent[int]("leave")
	nats := harness(t, fleets{orchestrations: []pawl.OrchestrationBinding{trip.Do(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		return leave.Receive(ctx)
	})}})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	for i := range 3 {
		must(t, at("start", "trip", fmt.Sprintf("trip-%d", i), "--attribute", "country=ch", "--wait-started")...)
	}
	must(t, at("start", "trip", "other", "--wait-started")...)
	for _, c := range []struct {
		batch  string
		status string // of the three afterwards; empty: they are purged
	}{
		{"pause --reason snow", "paused"}, {"resume", "running"}, {"terminate --rate 100", "cancelled"}, {"retry --from-start", "running"},
		{"cancel --reason strike", "cancelled"}, {"rewind --to 1", "running"}, {"send leave 7", "completed"}, {"purge", ""},
	} {
		args := append([]string{"batch"}, append(strings.Fields(c.batch), "--where", "country = ch", "--yes", "--json")...)
		wantText(t, must(t, at(args...)...), `"status":"completed"`, `"total":3`, `"sent":3`)
		if c.status == "" {
			continue
		}
		for i := range 3 {
			id := fmt.Sprintf("trip-%d", i)
			eventually(t, id+" is "+c.status+" after "+c.batch, func() bool {
				return strings.Contains(must(t, at("get", id, "--json")...), `"status":"`+c.status+`"`)
			})
		}
	}
	eventually(t, "only the instance outside the filter is left", func() bool {
		out := must(t, at("list", "--where", "orchestration = trip", "--json")...)
		return strings.Count(out, "\n") == 1 && strings.Contains(out, `"other"`)
	})
	if code, _, errs := command(t, at("batch", "send", "no event", "--all")...); code != 2 || !strings.Contains(errs, "no event") {
		t.Errorf("code %d, %q", code, errs)
	}
	wantText(t, must(t, at("batch", "cancel", "--all", "--detach", "--id", "last")...), "last: batch started")
	eventually(t, "a detached batch ends", func() bool {
		return strings.Contains(must(t, at("batch", "describe", "last", "--json")...), `"status":"completed"`)
	})
}
