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
	RateRatio float64 `json:"rate_ratio"`        // of the traced fleets, median of the pairs
	Lowest    float64 `json:"lowest_rate_ratio"` // of a pair
	CPURatio  float64 `json:"cpu_ratio"`         // of orchestrator and worker, for each activity, median of the pairs
	Requests  int64   `json:"requests"`          // that the collector has received
	KiB       float64 `json:"kib"`               // of them
}

// collector receives traces as a collector of OpenTelemetry does, and counts them.
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

// tracing measures chains on pairs of fleets, of which one exports a tenth of its traces, alternately the first one and the second one.
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
		return errors.New("tracing: the collector has received nothing")
	}
	return r.report.add(tracingResult{
		Scenario: r.opts.Scenario, Pairs: r.opts.Rounds, RateRatio: median(rates), Lowest: slices.Min(rates), CPURatio: median(cpu),
		Requests: c.requests.Load(), KiB: float64(c.bytes.Load()) / 1024,
	})
}

// chainTraced measures chains on a fleet of its own.
func (r *run) chainTraced(ctx context.Context, c *collector, traced bool) (m loadResult, err error) {
	l := layout{orchestrators: 1, workers: 1}
	if traced {
		l.tracesTo = c.url
	}
	f, d, stop, err := r.start(ctx, l)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, stop()) }() // which exports what is left
	return r.measure(ctx, d.scenario("chain", r.opts.N), d, f)
}

func membersCPU(m loadResult) float64 { return m.CPU["orchestrator"] + m.CPU["worker"] }
