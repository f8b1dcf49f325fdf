package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
)

const benchIdle = 200 // instances, one at a time, for the latency

type benchCmd struct {
	Scenario  string   `arg:"" enum:"hello,chain,fanout,event,all,turn,cancel,gate,recover" help:"hello: 1 activity. chain: 5 in sequence. fanout: --n in parallel. event: waits for one. all: each of them. turn: the turn engine alone, without servers. cancel: from the commit that cancels an activity to its context's end in another process. gate: many instances through one gate, and what it costs. recover: how long instances wait because of a fault."`
	Instances int      `placeholder:"N" help:"Instances to run. Default: as many as take a few seconds on two cores; gate: 100,000."`
	N         int      `default:"100" help:"Activities of one fanout."`
	InFlight  int      `default:"1000" help:"Instances under way at the same time."`
	Load      bool     `help:"cancel: while the fleet does half of what it can."`
	NoHints   bool     `help:"cancel: with a worker that NATS does not let hear of cancellations, so that it finds out by renewing."`
	Fanout    int      `default:"1" help:"cancel: activities of one instance, up to 10,000."`
	Rounds    int      `default:"10" help:"recover: how often each fault is injected."`
	Fleets    int      `default:"1" help:"recover: rounds at the same time, each on a fleet of its own; those with targets below a second have the machine to themselves."`
	Fault     []string `placeholder:"NAME" help:"recover: only these faults."`
	JSON      bool     `name:"json" help:"Write one JSON object a scenario."`
	given     bool     // a fleet, by --nats

	settings.Namespace `group:"Connection"`
	settings.NATS      `group:"Connection"`
	settings.Log       `group:"Connection"`
}

// Validate refuses what can not be run.
func (c *benchCmd) Validate() error {
	if c.Instances < 0 || c.N < 1 || c.InFlight < 1 || c.Rounds < 1 || c.Fleets < 1 {
		return fmt.Errorf("--instances %d, --n %d, --in-flight %d, --rounds %d, --fleets %d: want positive numbers", c.Instances, c.N, c.InFlight, c.Rounds, c.Fleets)
	}
	return errors.Join(c.validateCancel(), c.validateGate())
}

// measured is the result of one scenario.
type measured struct {
	Scenario       string             `json:"scenario"`
	Instances      int                `json:"instances"`
	Activities     int                `json:"activities"`
	Seconds        float64            `json:"seconds"`
	InstancesPerS  float64            `json:"instances_per_s"`
	ActivitiesPerS float64            `json:"activities_per_s"`
	P50MS          float64            `json:"p50_ms"` // of one instance at a time, nothing else running
	P99MS          float64            `json:"p99_ms"`
	CPU            map[string]float64 `json:"cpu_s_per_1000,omitempty"` // seconds per 1,000 activities (event: instances), by process
}

// AfterApply takes a --nats for a fleet that is to be measured.
func (c *benchCmd) AfterApply(k *kong.Context) error { //nolint:unparam // the form of a hook
	c.given = slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "nats" })
	return nil
}

// Run measures. Without --nats, NATS, Redis, an orchestrator and a worker are started for
// it as processes of their own, and this one is the client.
func (c *benchCmd) Run(ctx context.Context, s streams) (err error) {
	if c.Scenario == "turn" {
		return benchTurn(s.out, c.JSON)
	}
	log := slog.New(slog.DiscardHandler)
	if c.LogLevel != "info" {
		log = c.Open(s.err)
	}
	switch c.Scenario {
	case "cancel":
		return c.benchCancel(ctx, s, log)
	case "gate":
		return c.benchGate(ctx, s, log)
	case "recover":
		return c.benchRecover(ctx, s, log)
	}
	rig, b, end, err := c.fleet(ctx, s, log, examplesMembers())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	scenarios := []string{c.Scenario}
	if c.Scenario == "all" {
		scenarios = []string{"hello", "chain", "fanout", "event"}
	}
	var all []measured
	for _, name := range scenarios {
		m, err := c.measure(ctx, s, b.scenario(name, c.N), b, rig)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if c.JSON {
			if err := writeJSON(s.out, m); err != nil {
				return err
			}
		}
		all = append(all, m)
	}
	if c.JSON {
		return nil
	}
	return benchTable(s.out, all)
}

// measure runs a scenario: a tenth to warm up, then all at once, then one at a time.
func (c *benchCmd) measure(ctx context.Context, s streams, sc scenario, b *bench, r *rig) (measured, error) {
	n := c.Instances
	if n <= 0 {
		n = sc.usual
	}
	m := measured{Scenario: sc.name, Instances: n, Activities: n * sc.activities}
	if _, err := b.load(ctx, sc, max(n/10, 1), c.InFlight, io.Discard); err != nil {
		return m, err
	}
	before := r.cpu()
	took, err := b.load(ctx, sc, n, c.InFlight, s.err)
	after := r.cpu()
	if err != nil {
		return m, err
	}
	m.Seconds = took.Seconds()
	m.InstancesPerS = float64(n) / m.Seconds
	m.ActivitiesPerS = float64(m.Activities) / m.Seconds
	thousands := float64(max(m.Activities, n)) / 1000
	for name, t := range after {
		if m.CPU == nil {
			m.CPU = make(map[string]float64)
		}
		m.CPU[name] = (t - before[name]).Seconds() / thousands
	}
	m.P50MS, m.P99MS, err = b.idle(ctx, sc, benchIdle)
	return m, err
}

func benchTable(w io.Writer, all []measured) error {
	t := &term.Table{
		Header: []string{"SCENARIO", "INSTANCES", "ACTIVITIES", "SECONDS", "INSTANCES/S", "ACTIVITIES/S", "P50 MS", "P99 MS", "CPU S PER 1000"},
		Right:  []int{1, 2, 3, 4, 5, 6, 7},
	}
	for _, m := range all {
		var cpu []string
		for _, name := range []string{"nats", "redis", "orchestrator", "worker", "client"} {
			if v, ok := m.CPU[name]; ok {
				cpu = append(cpu, fmt.Sprintf("%s %.3f", name, v))
			}
		}
		t.Add(m.Scenario, m.Instances, m.Activities, fmt.Sprintf("%.2f", m.Seconds), fmt.Sprintf("%.0f", m.InstancesPerS),
			fmt.Sprintf("%.0f", m.ActivitiesPerS), fmt.Sprintf("%.2f", m.P50MS), fmt.Sprintf("%.2f", m.P99MS), strings.Join(cpu, ", "))
	}
	return t.Write(w)
}

// percentile of ascending durations, in milliseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := min(int(p*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i].Nanoseconds()) / 1e6
}
