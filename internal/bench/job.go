package bench

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/pkg/client"
)

// besideResult compares a scenario with a reference: jobs, and instances whose code is on another orchestrator, with hello; instances with
// attributes with instances without.
type besideResult struct {
	loadResult

	HelloPerS  float64            `json:"hello_instances_per_s"`
	HelloP50MS float64            `json:"hello_p50_ms"`
	HelloRatio float64            `json:"hello_ratio"`                    // rate of instances, to that of the reference
	HelloCPU   map[string]float64 `json:"hello_cpu_s_per_1000,omitempty"` // of the reference
	CPURatio   map[string]float64 `json:"cpu_per_hello,omitempty"`        // processor time, to that of the reference, by process
}

// job compares jobs with hello.
func (r *run) job(ctx context.Context, f *fleet, d *driver) error {
	return r.beside(ctx, d.jobs(), d.scenario("hello", 1), r.opts.Instances, d, f)
}

// beside measures n instances (0: the default number) of a scenario and of a reference, in alternating halves, so that other load on the
// machine affects both.
func (r *run) beside(ctx context.Context, one, hello scenario, n int, d *driver, f *fleet) (err error) {
	if n == 0 {
		n = hello.instances
	}
	var halves [2][2]loadResult // of the scenario, and of the reference
	for i, order := range [2][2]int{{1, 0}, {0, 1}} {
		for _, which := range order {
			sc := [2]scenario{one, hello}[which]
			if halves[which][i], err = r.measure(ctx, sc, max(n/2, 1), d, f); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
		}
	}
	own, other := halves[0][0].and(halves[0][1]), halves[1][0].and(halves[1][1])
	m := besideResult{loadResult: own, HelloPerS: other.InstancesPerS, HelloP50MS: other.P50MS, HelloCPU: other.CPU, HelloRatio: own.InstancesPerS / other.InstancesPerS}
	for name, s := range own.CPU {
		if other.CPU[name] > 0 {
			if m.CPURatio == nil {
				m.CPURatio = make(map[string]float64)
			}
			m.CPURatio[name] = s / other.CPU[name]
		}
	}
	return r.report.add(m)
}

// jobs returns the activity of hello as a job.
func (d *driver) jobs() scenario {
	return timed("job", 1, 0, func(ctx context.Context, id string) error {
		run, err := client.Run(ctx, d.c, examples.Greet, id, "world")
		if err == nil {
			_, err = run.Result(ctx)
		}
		return err
	})
}

// and combines two measurements of the same scenario and number of instances.
func (m loadResult) and(o loadResult) loadResult {
	m.Instances, m.Activities, m.Seconds = m.Instances+o.Instances, m.Activities+o.Activities, m.Seconds+o.Seconds
	m.InstancesPerS, m.ActivitiesPerS = float64(m.Instances)/m.Seconds, float64(m.Activities)/m.Seconds
	m.P50MS, m.P99MS = (m.P50MS+o.P50MS)/2, max(m.P99MS, o.P99MS)
	cpu := make(map[string]float64, len(m.CPU))
	for name, s := range m.CPU {
		cpu[name] = (s + o.CPU[name]) / 2
	}
	m.CPU = cpu
	return m
}
