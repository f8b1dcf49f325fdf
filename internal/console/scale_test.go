package console_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// An instance of 10,000 events: what the server takes for its page, and the time until a browser can use it.
//
//	go test -run '^$' -bench LongInstance -benchtime 1x ./internal/console
func BenchmarkLongInstance(b *testing.B) {
	const n = 10_000
	h := newHarness(b, access.Policy{Loopback: true})
	_, err := client.Start(b.Context(), h.client, long, "long-1", n)
	check(b, err)
	for range n - 1 {
		check(b, client.Send(b.Context(), h.client, approved, "long-1", "x"))
	}
	h.until("all events are there", func(d client.Description) bool { return d.Events == n }, "long-1")
	median := func(name string, measure func() time.Duration) {
		var took []time.Duration
		for range 21 {
			took = append(took, measure())
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[10].Microseconds())/1000, name+"-ms")
		b.ReportMetric(float64(took[20].Microseconds())/1000, name+"-max-ms")
	}
	for name, path := range map[string]string{"page": "/instances/long-1", "first": "/instances/long-1?after=0"} {
		median(name, func() time.Duration {
			begin := time.Now()
			h.do("GET", path, "")
			return time.Since(begin)
		})
	}
	median("describe", func() time.Duration {
		begin := time.Now()
		_, err := h.client.Describe(b.Context(), "long-1")
		check(b, err)
		return time.Since(begin)
	})
	tab := newBrowser(h)
	tab.size(1280, 800)
	median("interactive", func() time.Duration {
		tab.open("/instances/long-1")
		ms, err := chromedp.Run(tab.ctx, chromedp.Evaluate[float64](`performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`))
		check(b, err)
		return time.Duration(ms * float64(time.Millisecond))
	})
	b.Log(fmt.Sprint(n, " events"))
}
