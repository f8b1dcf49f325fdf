package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nuid"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// The benchmarks of docs/http-api.md. Each compares alternatives within one run, because machines differ:
//
//	go test -run '^$' -bench . -benchtime 1x ./internal/gateway

var (
	step  = pawl.NewActivity[int, int]("step")
	chain = pawl.NewOrchestration[int, int]("chain")
	quick = pawl.NewOrchestration[int, int]("quick")
)

func scaled(b *testing.B) (*integration.Fleet, string) {
	b.Helper()
	fleet := integration.Start(b,
		step.Do(func(_ context.Context, n int) (int, error) { return n, nil }),
		quick.Do(func(_ *pawl.Context, n int) (int, error) { return n, nil }),
		chain.Do(func(ctx *pawl.Context, n int) (int, error) {
			for range 5 {
				if _, err := step.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		}))
	handler := gateway.New(gateway.Config{
		Client: func() *client.Client { return fleet.Client }, Access: access.Policy{Loopback: true},
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // logging is part of the cost
	})
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = gateway.NewServer(handler, slog.New(slog.DiscardHandler))
	srv.Start()
	b.Cleanup(srv.Close)
	b.Cleanup(handler.Close)
	return fleet, srv.URL
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fill writes n instance records as commits would: 1 % running, 9 % failed, the others completed, 8 orchestrations.
func fill(b *testing.B, rdb redis.UniversalClient, partitions, n int) {
	b.Helper()
	end, err := eventcodec.Encode(&history.Failed{Failure: history.Failure{Message: "declined", Code: "shop.declined"}})
	must(b, err)
	base := time.Now().Add(-24 * time.Hour).UnixMilli()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				to := int(next.Add(2000))
				if to > n {
					return
				}
				pipe := rdb.Pipeline()
				for i := to - 2000; i < to; i++ {
					id, at := fmt.Sprintf("order-%07d", i), base+int64(i)*86_000/1000
					p := redisx.NewSpace("default").Part(transport.PartitionOf(id, partitions))
					status := "completed"
					switch {
					case i%100 == 0:
						status = "running"
					case i%10 == 0:
						status = "failed"
					}
					fields := []any{"name", fmt.Sprintf("fulfil-%d", i%8), "version", "", "orig", fmt.Sprintf("%d.%d", i+1, at), "execution", 1, "status", status, "head", "h", "created", at, "updated", at + 50, "events", 12}
					if status != "running" {
						fields = append(fields, "ended", at+50, "end", end)
					}
					pipe.HSet(b.Context(), p.Instance(id), fields...)
					tenant := fmt.Sprintf("t-%03d", i%1000)
					pipe.HSet(b.Context(), p.Instance(id), "attributes", fmt.Sprintf(`{"items":%d,"tenant":%q}`, i%5000, tenant))
					sets := []string{p.Values("orchestration", fmt.Sprintf("fulfil-%d", i%8)), p.Values("tenant", tenant)}
					if status == "failed" {
						sets = append(sets, p.Values("code", "shop.declined"))
					}
					for _, key := range sets {
						pipe.ZAdd(b.Context(), key, redis.Z{Member: id})
					}
					pipe.ZAdd(b.Context(), p.Index(status), redis.Z{Score: float64(at + 50), Member: id})
					pipe.ZAdd(b.Context(), p.Orchestrations(), redis.Z{Member: fmt.Sprintf("fulfil-%d", i%8)})
					pipe.ZAdd(b.Context(), p.Numbers("items"), redis.Z{Score: float64(i % 5000), Member: id})
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkMillionInstances lists 1,000,000 instances: first pages, later pages, and filters.
func BenchmarkMillionInstances(b *testing.B) {
	const n = 1_000_000
	fleet, at := scaled(b)
	begin := time.Now()
	fill(b, fleet.Redis, 64, n)
	b.Logf("%d records written in %s", n, time.Since(begin))
	for name, where := range map[string]string{
		"all": "", "failed": "status = failed", "two terms": `status = failed and orchestration = fulfil-2`, "one orchestration": "orchestration = fulfil-2",
		"code and time": "code = shop.declined and ended > -12h", "prefix": "id starts order-00001", "id": "id = order-0500000",
		"tenant": "tenant = t-013", "three terms": "tenant in (t-010, t-020) and status = failed and orchestration = fulfil-2", "range": "items >= 4990",
	} {
		b.Run(name, func(b *testing.B) {
			var first, later []time.Duration
			for range 40 {
				cursor := ""
				for page := range 5 {
					begin := time.Now()
					next := list(b, at, url.Values{"where": {where}, "limit": {"50"}, "cursor": {cursor}})
					if took := time.Since(begin); page == 0 {
						first = append(first, took)
					} else {
						later = append(later, took)
					}
					if cursor = next; next == "" {
						break
					}
				}
			}
			report(b, "first", first)
			report(b, "later", later)
			var pages []time.Duration
			for range 10 { // includes the counts, which the console limits to half a second
				begin := time.Now()
				get(b, at+"/instances?"+url.Values{"where": {where}}.Encode())
				pages = append(pages, time.Since(begin))
			}
			report(b, "console", pages)
		})
	}
}

func report(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, name+"-p99-ms")
}

func list(b *testing.B, at string, q url.Values) (next string) {
	b.Helper()
	body := get(b, at+"/api/v1/instances?"+q.Encode())
	if bytes.Contains(body, []byte("incomplete")) {
		b.Fatalf("%s", body)
	}
	_, rest, found := bytes.Cut(body, []byte(`"next":"`))
	if found {
		next, _, _ = strings.Cut(string(rest), `"`)
	}
	return next
}

func get(b *testing.B, at string) []byte {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, at, nil)
	must(b, err)
	r.Header.Set("Accept-Encoding", "identity")
	w, err := http.DefaultClient.Do(r)
	must(b, err)
	defer func() { _ = w.Body.Close() }()
	body, err := io.ReadAll(w.Body)
	must(b, err)
	if w.StatusCode != http.StatusOK {
		b.Fatalf("%d %s", w.StatusCode, body)
	}
	return body
}

// BenchmarkStarts compares starts over HTTP with starts by the Go client, 64 at a time, in alternating rounds of one run.
func BenchmarkStarts(b *testing.B) {
	fleet, at := scaled(b)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	hc := &http.Client{Transport: transport}
	ways := []func(id string) error{
		func(id string) error {
			_, err := client.Start(b.Context(), fleet.Client, quick, id, 1)
			return err
		},
		func(id string) error {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, at+"/api/v1/instances", strings.NewReader(`{"orchestration":"quick","id":"`+id+`","input":1}`))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			w, err := hc.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = w.Body.Close() }()
			if _, err = io.Copy(io.Discard, w.Body); err == nil && w.StatusCode != http.StatusAccepted {
				err = fmt.Errorf("status %d", w.StatusCode)
			}
			return err
		},
	}
	var rate, cpu [2][]float64
	for range 6 {
		for i, start := range ways {
			n, used := 3000, processor()
			begin := time.Now()
			parallel(b, 64, n, start)
			rate[i] = append(rate[i], float64(n)/time.Since(begin).Seconds())
			cpu[i] = append(cpu[i], float64((processor()-used).Microseconds())/float64(n))
			settle(b, fleet.Client)
		}
	}
	b.ReportMetric(median(rate[0]), "go/s")
	b.ReportMetric(median(rate[1]), "http/s")
	b.ReportMetric(median(rate[1])/median(rate[0]), "ratio")
	b.ReportMetric(median(cpu[0]), "go-cpu-µs")
	b.ReportMetric(median(cpu[1]), "http-cpu-µs")
}

// settle waits until all instances have ended.
func settle(b *testing.B, c *client.Client) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for before := uint64(0); ; {
		n, err := c.Count(b.Context(), client.CountOptions{})
		must(b, err)
		if now := n.Status[client.Completed]; n.Status[client.Running]+n.Status[client.Pending] == 0 && now == before {
			return
		} else {
			before = now
		}
		<-tick.C
	}
}

func parallel(b *testing.B, workers, n int, do func(id string) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := do("s-" + nuid.Next()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// processor returns the CPU time that this process has used, which includes the orchestrator, worker, gateway, NATS and
// clients.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// BenchmarkStreams measures 1,000 streams while chains of activities run: the CPU time per chain with and without streams,
// in alternating rounds, and the memory of the streams. The readers of the streams are in the same process.
func BenchmarkStreams(b *testing.B) {
	for name, where := range map[string]func(int) string{
		"one": nil, "same": func(int) string { return "orchestration = chain" }, "ids": func(i int) string { return fmt.Sprintf("id starts c-%03d", i) },
		"orchestrations": func(i int) string { return fmt.Sprintf("orchestration = o-%d", i) },
	} {
		b.Run(name, func(b *testing.B) {
			fleet, at := scaled(b)
			streams := 1000
			if where == nil {
				streams, where = 1, func(int) string { return "" }
			}
			var took [2][]float64
			var memory float64
			var n atomic.Int64
			for round := range 14 {
				with := round % 2
				var conns []net.Conn
				before := heap()
				if with == 1 {
					for i := range streams {
						conns = append(conns, stream(b, at, where(i)))
					}
					memory = (float64(heap()) - float64(before)) / (1 << 20)
				}
				parallel(b, 32, 100, func(string) error { return runChain(b.Context(), fleet.Client, n.Add(1)) })
				used := processor()
				parallel(b, 32, 1000, func(string) error { return runChain(b.Context(), fleet.Client, n.Add(1)) })
				took[with] = append(took[with], float64((processor()-used).Microseconds())/1000)
				for _, c := range conns {
					_ = c.Close()
				}
				<-time.After(100 * time.Millisecond)
			}
			b.ReportMetric(median(took[0]), "µs/chain")
			b.ReportMetric(100*(median(took[1])/median(took[0])-1), "more-%")
			b.ReportMetric(memory, "MiB")
		})
	}
}

func runChain(ctx context.Context, c *client.Client, n int64) error {
	run, err := client.Start(ctx, c, chain, fmt.Sprintf("c-%03d-%d", n%1000, n), 1)
	if err == nil {
		_, err = run.Result(ctx)
	}
	return err
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func stream(b *testing.B, at, where string) net.Conn {
	b.Helper()
	c, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", strings.TrimPrefix(at, "http://"))
	must(b, err)
	_, err = fmt.Fprintf(c, "GET /api/v1/watch?where=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", url.QueryEscape(where))
	must(b, err)
	r := bufio.NewReaderSize(c, 512)
	line, err := r.ReadString('\n')
	must(b, err)
	if !strings.Contains(line, "200") {
		b.Fatal(line)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return c
}
