package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	listInstances = 20_000
	listRequests  = 200  // requests of each list and of each count
	listPage      = 50   // rows
	listTenants   = 1000 // values of the attribute tenant
	listInFlight  = 2048
)

var (
	listed     = pawl.NewOrchestration[int, int]("bench-listed")
	listTenant = pawl.NewAttribute[string]("tenant")
	listItems  = pawl.NewAttribute[int]("items")

	errDeclined = pawl.NewError("bench-declined")
)

// listOrchestrations returns the orchestration of the listed instances, one in ten of which fails.
func listOrchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{listed.Do(func(_ *pawl.Context, n int) (int, error) {
		if n%10 == 0 {
			return 0, errDeclined
		}
		return n, nil
	})}
}

// listResult reports the latencies of a list and a count. Those of a list are of its first page.
type listResult struct {
	Scenario  string  `json:"scenario"`
	Query     string  `json:"query"`
	Instances int     `json:"instances"`
	Matching  int     `json:"matching"`
	P50MS     float64 `json:"page_p50_ms"`
	P99MS     float64 `json:"page_p99_ms"`
	CountP50  float64 `json:"count_p50_ms"`
	CountP99  float64 `json:"count_p99_ms"`
	PerValue  float64 `json:"attribute_bytes"` // memory of Redis per attribute of an instance
}

// list measures lists and counts of instances with two attributes: a text, which one in 1,000 instances shares, and a number.
func (r *run) list(ctx context.Context, f *fleet, d *driver) error {
	n := cmp.Or(r.opts.Instances, listInstances)
	bytes, err := r.fillList(ctx, d, f.rdb, n)
	if err != nil {
		return err
	}
	for _, q := range []struct{ name, where string }{
		{"all", ""},
		{"one-term", `tenant = "t-013"`},
		{"two-terms", `tenant = "t-010" and status = failed`},
		{"three-terms", `tenant in ("t-010", "t-020") and status = failed and orchestration = bench-listed`},
		{"range", `items >= 4990`},
	} {
		m := listResult{Scenario: "list", Query: q.name, Instances: n, PerValue: bytes}
		if err := d.measureList(ctx, q.where, &m); err != nil {
			return fmt.Errorf("list %s: %w", q.name, err)
		}
		if err := r.report.add(m); err != nil {
			return err
		}
	}
	return r.beside(ctx, d.listed("attributes", true), d.listed("without", false), min(n, listInstances), d, f)
}

// listed returns a scenario of instances with or without the two attributes, to measure their cost.
func (d *driver) listed(name string, attributes bool) scenario {
	var n atomic.Int64
	return timed(name, 0, 0, func(ctx context.Context, id string) error {
		var opts []client.StartOption
		if attributes {
			opts = listAttributes(int(n.Add(1)))
		}
		return runOne(ctx, d, listed, id, 1, opts...)
	})
}

func listAttributes(i int) []client.StartOption {
	return []client.StartOption{client.With(listTenant.Is(fmt.Sprintf("t-%03d", i%listTenants))), client.With(listItems.Is(i % 5000))}
}

// fillList runs n instances with attributes, and a tenth as many without, and returns the memory of an attribute in bytes.
func (r *run) fillList(ctx context.Context, d *driver, rdb redis.UniversalClient, n int) (bytes float64, err error) {
	p := term.NewProgress(r.errw, n, "instances")
	defer p.End()
	fill := func(n int, attributes bool) (perInstance float64, err error) {
		before, err := usedMemory(ctx, rdb)
		if err != nil {
			return 0, err
		}
		if err := each(ctx, n, listInFlight, func(ctx context.Context, i int) error {
			var opts []client.StartOption
			if attributes {
				opts = listAttributes(i)
			}
			err := runOne(ctx, d, listed, d.id("listed"), i/listTenants, opts...)
			if errors.Is(err, errDeclined) {
				err = nil
			}
			p.Add(1)
			return err
		}); err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, rdb)
		return (after - before) / float64(n), err
	}
	plain := max(n/10, 1)
	if _, err := fill(min(plain, 1000), false); err != nil { // allocates what a fleet needs only once
		return 0, err
	}
	without, err := fill(plain, false)
	if err != nil {
		return 0, err
	}
	with, err := fill(n, true)
	return (with - without) / 2, err
}

// measureList measures the first page of a list, and the count, one at a time.
func (d *driver) measureList(ctx context.Context, where string, m *listResult) error {
	var pages, counts []time.Duration
	for range listRequests {
		began := time.Now()
		for _, err := range d.c.List(ctx, client.ListOptions{Where: where, Limit: listPage}) {
			if err != nil {
				return err
			}
		}
		pages, began = append(pages, time.Since(began)), time.Now()
		c, err := d.c.Count(ctx, client.CountOptions{Where: where})
		if err != nil {
			return err
		}
		counts, m.Matching = append(counts, time.Since(began)), int(c.Count) //nolint:gosec // at most the instances of this run
	}
	m.P50MS, m.P99MS, _ = quantiles(pages)
	m.CountP50, m.CountP99, _ = quantiles(counts)
	return nil
}
