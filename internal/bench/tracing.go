package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tracingResult compares fleets that export traces with fleets that do not.
type tracingResult struct {
	Scenario  string  `json:"scenario"`
	Pairs     int     `json:"pairs"`
	RateRatio float64 `json:"rate_ratio"`        // traced to untraced, median of the pairs
	Lowest    float64 `json:"lowest_rate_ratio"` // lowest of the pairs
	CPURatio  float64 `json:"cpu_ratio"`         // processor time of orchestrator and worker per activity, median of the pairs
	Requests  int64   `json:"requests"`          // received by the collector
	KiB       float64 `json:"kib"`               // size of the requests
}

// collector counts traces, which it receives as a collector of OpenTelemetry does.
type collector struct {
	server          *http.Server
	url             string
	served          sync.WaitGroup
	requests, bytes atomic.Int64
}

func startCollector(ctx context.Context) (*collector, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &collector{url: "http://" + l.Addr().String()}
	c.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n, err := io.Copy(io.Discard, q.Body)
		if err != nil || q.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.bytes.Add(n)
		c.requests.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	c.served.Go(func() { _ = c.server.Serve(l) }) // until close
	return c, nil
}

func (c *collector) close() {
	_ = c.server.Close()
	c.served.Wait()
}

// tracing measures chains on pairs of fleets. One of each pair exports a tenth of its traces: the first and the second, alternately.
func (r *run) tracing(ctx context.Context) error {
	c, err := startCollector(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	var rates, cpu []float64
	for i := range r.opts.Rounds {
		var of [2]loadResult // without, and with traces
		for k := range of {
			traced := (i + k) % 2
			if of[traced], err = r.chainTraced(ctx, c, traced == 1); err != nil {
				return err
			}
		}
		rates = append(rates, of[1].ActivitiesPerS/of[0].ActivitiesPerS)
		if used := membersCPU(of[0]); used > 0 {
			cpu = append(cpu, membersCPU(of[1])/used)
		}
		_, _ = fmt.Fprintf(r.errw, "pair %d of %d: rate ratio %.3f\n", i+1, r.opts.Rounds, rates[i])
	}
	if c.requests.Load() == 0 {
		return errors.New("tracing: the collector received nothing")
	}
	return r.report.add(tracingResult{
		Scenario: r.opts.Scenario, Pairs: r.opts.Rounds, RateRatio: median(rates), Lowest: slices.Min(rates), CPURatio: median(cpu),
		Requests: c.requests.Load(), KiB: float64(c.bytes.Load()) / 1024,
	})
}

// chainTraced measures chains on a fleet of its own, whose stop exports the remaining traces.
func (r *run) chainTraced(ctx context.Context, c *collector, traced bool) (m loadResult, err error) {
	l := layout{orchestrators: 1, workers: 1}
	if traced {
		l.tracesTo = c.url
	}
	err = r.onFleet(ctx, l, func(f *fleet, d *driver) (err error) {
		m, err = r.measure(ctx, d.scenario("chain", r.opts.N), r.opts.Instances, d, f)
		return err
	})
	return m, err
}

func membersCPU(m loadResult) float64 { return m.CPU["orchestrator"] + m.CPU["worker"] }
