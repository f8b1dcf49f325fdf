package console_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// The benchmarks of docs/console.md. The machine must be otherwise idle:
//
//	go test -run '^$' -bench . -benchtime 1x ./internal/console

// median measures 21 times, and reports the median and the maximum.
func median(b *testing.B, name string, measure func() time.Duration) {
	b.Helper()
	var took []time.Duration
	for range 21 {
		took = append(took, measure())
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[10].Microseconds())/1000, name+"-ms")
	b.ReportMetric(float64(took[20].Microseconds())/1000, name+"-max-ms")
}

// loaded opens a page, and returns the time until it can be used.
func (b *browser) loaded(path string) time.Duration {
	b.open(path)
	ms, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](`performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`))
	check(b.h.TB, err)
	return time.Duration(ms * float64(time.Millisecond))
}

// BenchmarkFirstPage measures the first page with its assets: its compressed size, the time of the server, and the time
// until a browser can use it.
func BenchmarkFirstPage(b *testing.B) {
	h := newHarness(b, access.Policy{Loopback: true})
	h.populate("")
	_, body := h.do("GET", "/", "")
	size := h.sent("/")
	for _, asset := range regexp.MustCompile(`/assets/[a-z0-9.-]+`).FindAllString(body, -1) {
		size += h.sent(asset)
	}
	b.ReportMetric(float64(size)/1024, "KiB")
	median(b, "server", func() time.Duration {
		begin := time.Now()
		h.do("GET", "/", "")
		return time.Since(begin)
	})
	tab := newBrowser(h)
	tab.size(1280, 800)
	median(b, "interactive", func() time.Duration { return tab.loaded("/") })
}

// BenchmarkChange measures the time from the commit of an event until a browser shows it, when the page was refreshed right
// before.
func BenchmarkChange(b *testing.B) {
	h := newHarness(b, access.Policy{Loopback: true})
	tab := newBrowser(h)
	tab.size(1280, 800)
	took := changes(h, tab, 51)
	b.ReportMetric(float64(took[25].Milliseconds()), "median-ms")
	b.ReportMetric(float64(took[48].Milliseconds()), "p95-ms")
	b.ReportMetric(float64(took[50].Milliseconds()), "max-ms")
}

// BenchmarkLongInstance measures the page of an instance with 10,000 events: the time of the server, and the time until a
// browser can use it.
func BenchmarkLongInstance(b *testing.B) {
	const n = 10_000
	h := newHarness(b, access.Policy{Loopback: true})
	_, err := client.Start(b.Context(), h.client, long, "long-1", n)
	check(b, err)
	for range n - 1 {
		check(b, client.Send(b.Context(), h.client, approved, "long-1", "x"))
	}
	h.until("all events are recorded", func(d client.Description) bool { return d.Events == n }, "long-1")
	for name, path := range map[string]string{"page": "/instances/long-1", "first": "/instances/long-1?after=0"} {
		median(b, name, func() time.Duration {
			begin := time.Now()
			h.do("GET", path, "")
			return time.Since(begin)
		})
	}
	median(b, "describe", func() time.Duration {
		begin := time.Now()
		_, err := h.client.Describe(b.Context(), "long-1")
		check(b, err)
		return time.Since(begin)
	})
	tab := newBrowser(h)
	tab.size(1280, 800)
	median(b, "interactive", func() time.Duration { return tab.loaded("/instances/long-1") })
}
