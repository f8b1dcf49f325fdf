//go:build screenshots

package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawlrun/pawl/internal/access"
)

// TestScreenshots writes the pictures of docs/console.md: make screenshots.
func TestScreenshots(t *testing.T) {
	dir, err := filepath.Abs("../../docs/console")
	check(t, err)
	check(t, os.MkdirAll(dir, 0o755))
	h := newHarness(t, access.Policy{Loopback: true})
	h.populate()
	b := newBrowser(h)
	for _, width := range []int64{360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.size(width, 800)
			b.colors(scheme)
			for name, path := range screens {
				b.open(path)
				png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				check(t, err)
				check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644))
			}
		}
	}
}
