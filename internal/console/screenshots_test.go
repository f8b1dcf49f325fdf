//go:build screenshots

package console_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/pkg/client"
)

// TestScreenshots writes the pictures of docs/console.md; see make screenshots. -run TestScreenshots/360-dark writes the
// pictures of one width and color scheme.
func TestScreenshots(t *testing.T) {
	dir, err := filepath.Abs("../../docs/console")
	check(t, err)
	check(t, os.MkdirAll(dir, 0o755))
	h := newHarness(t, access.Policy{Loopback: true})
	h.populate("")
	b := newBrowser(h)
	take := func(screens map[string]string) {
		for _, width := range []int64{360, 1280, 3840} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%d-%s", width, scheme), func(t *testing.T) {
					b.size(width, 800)
					b.colors(scheme)
					for name, path := range screens {
						b.open(path)
						png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
						check(t, err)
						check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644))
					}
				})
			}
		}
	}
	take(screens)
	take(h.populateMuch())
}

// populateMuch starts what makes pages large: 2,000 instances with long ids, a history of 10,000 events, and an instance
// with many activities.
func (h *harness) populateMuch() map[string]string {
	h.Helper()
	id := "customer-2026-11-22:" + strings.Repeat("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855-", 2)
	for i := range 2000 {
		_, err := client.Start(h.Context(), h.client, ship, fmt.Sprintf("%s%04d", id, i), "lamp")
		check(h.TB, err)
	}
	_, err := client.Start(h.Context(), h.client, pay, id+"failed", strings.Repeat("the card of this customer was declined by the bank, ", 30))
	check(h.TB, err)
	_, err = client.Start(h.Context(), h.client, long, "long-1", 10_000)
	check(h.TB, err)
	for range 9_999 {
		check(h.TB, client.Send(h.Context(), h.client, approved, "long-1", "x"))
	}
	_, err = client.Start(h.Context(), h.client, wide, "wide-1", 200)
	check(h.TB, err)
	h.status("wide-1", client.Running)
	h.until("all events are recorded", func(d client.Description) bool { return d.Events == 10_000 }, "long-1")
	h.status(id+"failed", client.Failed)
	h.until("wide-1 has its activities", func(d client.Description) bool { return d.Events > 200 }, "wide-1")
	return map[string]string{
		"much-instances": "/instances", "much-failed": "/instances/" + url.PathEscape(id+"failed"), "much-long": "/instances/long-1", "much-long-first": "/instances/long-1?after=0", "much-wide": "/instances/wide-1", "much-home": "/",
	}
}
