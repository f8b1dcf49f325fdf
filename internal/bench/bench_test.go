package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// asProgram is the variable that makes the test binary run as one of the programs of a fleet.
const asProgram = "TEST_AS_BENCH_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		var p Programs
		k, code, ok := settings.Commands(&p, "bench", "", os.Args[1:], os.Stdout, os.Stderr)
		if ok {
			k.BindTo(context.Background(), (*context.Context)(nil))
			if err := k.Run(); err != nil {
				code = 1
			}
		}
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "bench-test-")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{asProgram: "1", "TMPDIR": dir} { // for child processes, and to find leftovers of fleets
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left, err := os.ReadDir(dir); code == 0 && (err != nil || len(left) > 0) {
			fmt.Fprintln(os.Stderr, "leftovers:", left, err)
			code = 1
		}
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// command parses arguments as pawl bench does.
func command(t *testing.T, args ...string) (*Command, error) {
	t.Helper()
	var c struct {
		Bench Command `cmd:""`
	}
	k, err := kong.New(&c, kong.Name("pawl"), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Parse(append([]string{"bench"}, args...))
	return &c.Bench, err
}

// measure runs a scenario and decodes its results, one object per line.
func measure[R any](t *testing.T, args ...string) (results []R, keys map[string]any) {
	t.Helper()
	c, err := command(t, append(args, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := c.Measure(t.Context(), &out, &errs); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	for line := range strings.Lines(out.String()) {
		var r R
		if err := errors.Join(json.Unmarshal([]byte(line), &r), json.Unmarshal([]byte(line), &keys)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		results = append(results, r)
	}
	return results, keys
}

func TestBenchAgainstFleetRemovesItsInstances(t *testing.T) {
	t.Parallel()
	own, err := command(t, "hello")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{opts: own, errw: t.Output(), childLog: t.Output()}
	_, d, stop, err := r.start(t.Context(), layout{orchestrators: 1, workers: 1, concurrency: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	results, _ := measure[loadResult](t, "all", "--instances", "10", "--n", "5", "--nats", string(r.opts.NATSURL))
	for i, want := range []string{"hello", "chain", "fanout", "event"} {
		if m := results[i]; m.Scenario != want || m.Instances != 10 || m.InstancesPerS <= 0 || m.P99MS < m.P50MS || m.P50MS <= 0 {
			t.Errorf("%+v", m)
		}
	}
	for d, err := range d.c.List(t.Context(), client.ListOptions{}) {
		t.Errorf("leftover: %s, %v", d.Instance, err)
	}
}

func TestBenchMeasuresGrowth(t *testing.T) {
	t.Parallel()
	long, _ := measure[longResult](t, "long", "--instances", "250", "--single")
	if r := long[0]; r.Activities != 250 || r.FirstMS <= 0 || r.LastMS <= 0 || r.Ratio <= 0 {
		t.Errorf("%+v", r)
	}
	idle, _ := measure[idleResult](t, "idle", "--instances", "200", "--settle", "100ms")
	if r := idle[0]; r.Instances != 200 || r.RedisBytes < 100 || r.RedisBytes > 5000 || r.ChainPerS <= 0 || r.ChainRatio <= 0 {
		t.Errorf("%+v", r)
	}
	payload, _ := measure[loadResult](t, "payload", "--instances", "5", "--fsync", "always")
	for i, want := range []string{"payload-1KiB", "payload-64KiB", "payload-500KiB"} {
		if r := payload[i]; r.Scenario != want || r.Instances != 5 || r.InstancesPerS <= 0 {
			t.Errorf("%+v", r)
		}
	}
	mass, _ := measure[massResult](t, "mass", "--instances", "200", "--single")
	if r := mass[0]; r.Instances != 200 || r.StartsPerS < r.InstancesPerS || r.Seconds <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchJobIsComparedWithHello(t *testing.T) {
	t.Parallel()
	results, keys := measure[besideResult](t, "job", "--instances", "20", "--single")
	if r := results[0]; r.Scenario != "job" || r.Instances != 20 || r.InstancesPerS <= 0 || r.P50MS <= 0 || r.HelloPerS <= 0 || r.HelloRatio <= 0 || r.HelloP50MS <= 0 {
		t.Errorf("%+v", r)
	}
	if _, ok := keys["cpu_s_per_1000"].(map[string]any)["orchestrator"]; !ok {
		t.Errorf("no processor time of the orchestrator in %v", keys)
	}
}

func TestBenchScheduleFindsNoMissedOrDoubledStartAfterAKill(t *testing.T) {
	t.Parallel()
	results, _ := measure[scheduleResult](t, "schedule", "--schedules", "20", "--kill")
	if r := results[0]; r.Firings != 60 || r.Missed+r.Doubled != 0 || !r.Killed || r.P50MS <= 0 || r.P99MS < r.P50MS || r.MaxMS < r.P99MS {
		t.Errorf("%+v", r)
	}
}

func TestBenchBatchFindsNoMissedOrDoubledRequestAfterAKill(t *testing.T) {
	t.Parallel()
	results, _ := measure[batchResult](t, "batch", "--kill", "--instances", "500")
	if r := results[0]; r.Instances != 500 || !r.Killed || r.Missed+r.Doubled != 0 || r.PerS <= 0 || r.GapS <= 0 || r.LastPerS <= 0 || r.EndedPerS <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchUpdateMeasuresIdleAndHalfLoad(t *testing.T) {
	t.Parallel()
	results, keys := measure[updateResult](t, "update", "--instances", "200")
	if r := results[0]; r.Updates != 200 || r.PerS <= 0 || r.P50MS <= 0 || r.P99MS < r.P50MS || r.HalfPerS <= 0 || r.HalfP99MS < r.HalfP50MS || r.HalfP50MS <= 0 {
		t.Errorf("%+v", r)
	}
	if _, ok := keys["cpu_s_per_1000"].(map[string]any)["orchestrator"]; !ok {
		t.Errorf("no processor time of the orchestrator in %v", keys)
	}
}

func TestBenchUpdateLosesAndDuplicatesNothingAfterAKill(t *testing.T) {
	t.Parallel()
	for _, where := range [][]string{nil, {"--elsewhere"}} { // the first that is killed lacks the code
		results, _ := measure[updateKillResult](t, append([]string{"update", "--kill", "--instances", "300"}, where...)...)
		if r := results[0]; r.Updates != 300 || r.Kills == 0 || r.Repeats < 300 || r.Lost+r.Doubled+r.Changed != 0 {
			t.Errorf("%v: %+v", where, r)
		}
	}
}

func TestBenchElsewhereIsComparedWithHello(t *testing.T) {
	t.Parallel()
	results, keys := measure[besideResult](t, "hello", "--elsewhere", "--instances", "20")
	if r := results[0]; r.Scenario != "elsewhere" || r.Instances != 20 || r.P50MS <= 0 || r.HelloRatio <= 0 || r.HelloP50MS <= 0 {
		t.Errorf("%+v", r)
	}
	if _, ok := keys["cpu_s_per_1000"].(map[string]any)["member"]; !ok {
		t.Errorf("no processor time of the member that has the code in %v", keys)
	}
}

func TestUpdatesAreComparedWithTheExecutionsOfTheirInstances(t *testing.T) {
	for _, c := range []struct {
		name              string
		answers, executed []int
		lost, doubled     int
	}{
		{"each once", []int{1, 2, 2, 1}, []int{2, 2}, 0, 0},
		{"executed without an answer", []int{1, 1, 0, 2}, []int{2, 2}, 1, 1},
		{"not executed", []int{1, 1, 0, 2}, []int{1, 2}, 1, 0},
		{"two with the same answer", []int{1, 1, 1, 2}, []int{1, 2}, 1, 0},
		{"one executed twice", []int{1, 1, 3, 2}, []int{3, 2}, 0, 1},
		{"an answer without an execution", []int{1, 1, 3, 2}, []int{2, 2}, 1, 1},
	} {
		if lost, doubled := compareUpdates(c.answers, c.executed); lost != c.lost || doubled != c.doubled {
			t.Errorf("%s: %d lost, %d doubled", c.name, lost, doubled)
		}
	}
}

func TestBenchListMeasuresPagesAndCounts(t *testing.T) {
	t.Parallel()
	results, _ := measure[listResult](t, "list", "--instances", "2000")
	want := map[string]int{"all": 2400, "one-term": 2, "two-terms": 1, "three-terms": 2, "range": 0}
	last := len(results) - 1
	if r := results[last]; r.Scenario != "attributes" { // with further instances that have none
		t.Errorf("the last result is %+v", r)
	}
	for _, r := range results[:last] {
		if r.Matching != want[r.Query] || r.P50MS <= 0 || r.P99MS < r.P50MS || r.CountP50 <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if last != len(want) {
		t.Errorf("%d results", len(results))
	}
}

func TestFiringsAreCountedFromHistories(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	due := map[string]time.Time{"s@1": at(1), "s@2": at(2), "s@3": at(3), "s@4": at(4)}
	all := tally{at: due, begun: at(2), starts: map[string]int{}}
	err := all.instances(func(yield func(client.Summary, error) bool) {
		for id, updated := range map[string]int{"s@1": 5, "s@2": 4, "s@3": 4, "other": 9} { // s@4 is missed
			yield(client.Summary{Instance: id, Execution: 1, Updated: at(updated)}, nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	err = all.schedule(func(yield func(client.Entry, error) bool) {
		for _, id := range []string{"s@1", "s@2", "s@3", "s@3"} {
			yield(client.Entry{Event: &history.ChildScheduled{Instance: id}}, nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var m scheduleResult
	all.sum(&m)
	if m.Missed != 1 || m.Doubled != 2 || m.MaxMS != 2000 || m.P50MS != 2000 || len(all.lags) != 2 {
		t.Errorf("%+v %v", m, all.lags)
	}
}

// TestRollingRestartFailsNoInstanceAndRunsNoActivityTwice restarts two orchestrators and two workers.
func TestRollingRestartFailsNoInstanceAndRunsNoActivityTwice(t *testing.T) {
	t.Parallel()
	results, keys := measure[rollingResult](t, "rolling", "--rate", "20", "--rounds", "1")
	if _, ok := keys["run_twice"]; !ok {
		t.Errorf("%v", keys)
	}
	if r := results[0]; r.Restarts != 4 || r.Instances < 20 || r.Failed+r.Twice+r.Interrupted != 0 || r.P99MS < r.P50MS || r.P50MS <= 0 {
		t.Errorf("%+v", r)
	}
}

// TestWorkersThatFollowTheDemandInterruptNoActivity relies on the drain of a surplus worker, in which its activities end.
func TestWorkersThatFollowTheDemandInterruptNoActivity(t *testing.T) {
	t.Parallel()
	results, _ := measure[demandResult](t, "demand", "--instances", "40", "--workers", "3")
	if r := results[0]; r.MaxWorkers < 2 || r.MaxWorkers > 3 || r.Stopped != r.Started || r.Failed+r.Twice+r.Interrupted != 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchTracingComparesFleetsWithAndWithoutTraces(t *testing.T) {
	t.Parallel()
	results, _ := measure[tracingResult](t, "tracing", "--instances", "200", "--rounds", "1")
	if r := results[0]; r.Pairs != 1 || r.RateRatio <= 0 || r.Lowest != r.RateRatio || r.Requests == 0 || r.KiB <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestRunsThatBeganTwiceOrWereInterruptedAreCounted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(file, []byte("begun a\nbegun b\ninterrupted b\nbegun b\nended a\nended b\nbegun b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := readRuns(file); err != nil || r != (runs{Twice: 1, Interrupted: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBenchFloorRunsChainsWithoutEngine(t *testing.T) {
	t.Parallel()
	results, keys := measure[loadResult](t, "floor", "--instances", "20")
	if _, ok := keys["floor_ratio"]; ok {
		t.Error("the floor has a ratio to itself")
	}
	if r := results[0]; r.Scenario != "floor" || r.Activities != 100 || r.ActivitiesPerS <= 0 || r.P50MS <= 0 || r.CPU["redis"] < 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchCancelReachesEveryActivity(t *testing.T) {
	t.Parallel()
	results, keys := measure[cancelResult](t, "cancel", "--instances", "10")
	for _, key := range []string{"p50_ms", "p99_ms", "max_ms", "cancelled", "missed"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no %s in %v", key, keys)
		}
	}
	r := results[0]
	if b := r.Burst; r.Missed != 0 || r.Cancelled != 10 || !r.Hints || r.P50MS <= 0 || r.MaxMS < r.P99MS || b == nil || b.Missed+b.Leases+b.Goroutines+b.Wakeups != 0 {
		t.Errorf("%+v, burst %+v", r, r.Burst)
	}
}

func TestBenchCancelMeasuresCommitOfManyCancellations(t *testing.T) {
	t.Parallel()
	results, _ := measure[cancelResult](t, "cancel", "--instances", "2", "--fanout", "300")
	if r := results[0]; r.Cancelled != 600 || r.CommitMS <= 0 || r.Burst != nil {
		t.Errorf("%+v", r)
	}
}

func TestCancellationWithoutHintsIsDetectedByRenewal(t *testing.T) {
	t.Parallel()
	results, _ := measure[cancelResult](t, "cancel", "--instances", "8", "--no-hints")
	const renewal = 10 * time.Second / 3
	if r := results[0]; r.Hints || r.Missed != 0 || r.P50MS < 100 || r.MaxMS > float64(3*renewal.Milliseconds()) {
		t.Errorf("%+v", r)
	}
}

func TestBenchLimitMeasuresALimit(t *testing.T) {
	t.Parallel()
	results, keys := measure[limitResult](t, "limit", "--instances", "200", "--in-flight", "200")
	for _, key := range []string{"scenario", "grants_per_s", "unlimited_per_s", "chain_ratio", "p50_ms", "p99_ms", "bytes_per_waiter", "cpu_s_per_1000", "unlimited_cpu_s_per_1000"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no %s in %v", key, keys)
		}
	}
	r := results[0]
	if r.Instances != 200 || r.GrantsPerS <= 0 || r.DrainPerS <= 0 || r.P50MS <= 0 || r.P99MS < r.P50MS || r.PlainPerS <= 0 || r.Waiters != 200 || r.Turns != 200 {
		t.Errorf("%+v", r)
	}
	if len(r.ChainRatios) != limitRounds || r.ChainRatio <= 0 || r.BytesPerWaiter < 50 || r.BytesPerWaiter > 300 {
		t.Errorf("%+v", r)
	}
}

func TestBenchRecoverMeasuresHandover(t *testing.T) {
	t.Parallel()
	results, _ := measure[recoverResult](t, "recover", "--rounds", "1", "--fault", "hand-over", "--instances", "20")
	if r := results[0]; r.Fault != "hand-over" || r.Rounds != 1 || r.Instances < 50 || r.Failed != 0 || r.MaxMS <= 0 || r.TargetMS != 100 {
		t.Errorf("%+v", r)
	}
}

func TestRecoveryIsMeasuredFromTheEndOfTheFault(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	cs := []*canary{
		{began: at(0), ended: at(900)},                                  // ended before
		{began: at(500), ended: at(1200), runs: 150 * time.Millisecond}, // during the end of the fault: 200 ms, of which it runs for 150
		{began: at(1100), ended: at(1130), err: errors.New("")},
		{began: at(1100), ended: at(1110)},
	}
	if worst, held := waited(cs, at(1000), false); worst != 50*time.Millisecond || held != 0 {
		t.Errorf("together: %s, %s", worst, held)
	}
	if worst, held := waited(cs, at(1000), true); worst != 30*time.Millisecond || held != 50*time.Millisecond {
		t.Errorf("apart: %s, %s", worst, held)
	}
}

func TestInvalidCombinationsAreUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"hello", "--load"}, {"all", "--no-hints"}, {"chain", "--fanout", "3"}, {"cancel", "--fanout", "0"}, {"cancel", "--fanout", "10001"},
		{"limit", "--instances", "150"}, {"limit", "--in-flight", "100"}, {"cancel", "--nats", "nats://127.0.0.1:1"}, {"limit", "--nats", "nats://127.0.0.1:1"},
		{"recover", "--fault", "flood"}, {"recover", "--rounds", "0"}, {"job", "--kill"}, {"update", "--rollback"}, {"schedule", "--schedules", "0"}, {"hello", "--json", "--benchstat"},
	} {
		c, err := command(t, args...)
		if err == nil {
			err = c.Measure(t.Context(), t.Output(), t.Output())
			if _, usage := errors.AsType[settings.UsageError](err); err == nil || !usage {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
}

func TestResultsAreATableAndLinesForBenchstat(t *testing.T) {
	results := []any{
		loadResult{Scenario: "hello", Instances: 20, InstancesPerS: 3512.4, P50MS: 1.234, CPU: map[string]float64{"nats": 0.1234}},
		loadResult{Scenario: "chain", Instances: 5, InstancesPerS: 12, P50MS: 12.34},
	}
	var out bytes.Buffer
	r := report{w: &out}
	for _, v := range results {
		if err := r.add(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"METRIC", "HELLO  CHAIN\n", "instances/s", "3512   12.0\n", "p50 ms", "1.23   12.3\n", "nats cpu s per 1000  0.123\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	r = report{w: &out, benchstat: true}
	if err := r.add(recoverResult{Scenario: "recover", Fault: "hand-over", Since: "SIGTERM", Rounds: 3, P50MS: 20, Reached: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Unit p50-ms better=lower\n", "\nBenchmarkRecover/Hand-over 3 3 rounds 20 p50-ms "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestJoinCostIsProportionalToWidth(t *testing.T) {
	b := newTurnBench()
	costs := map[int]time.Duration{1_000: time.Hour, 10_000: time.Hour} // the lowest measurements, because other processes may use the cores
	for range 10 {
		for width := range costs {
			took, err := b.gather(width)
			if err != nil {
				t.Fatal(err)
			}
			costs[width] = min(costs[width], took)
		}
		if costs[10_000] <= 20*costs[1_000] {
			return
		}
		t.Log(costs)
	}
	t.Error("a join of 10,000 costs more than twenty times a join of 1,000; a quadratic cost would be a hundred times")
}

func TestTurnMakesFewAllocations(t *testing.T) {
	ns, allocs, err := newTurnBench().turn(20 * time.Millisecond)
	if err != nil || allocs > 20 {
		t.Errorf("%.1f allocations in %.0f ns, %v", allocs, ns, err)
	}
}
