package term

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// plainEvery is the least time between two lines of progress where there is no terminal.
const plainEvery = 2 * time.Second

// Progress shows how far something with a known end has come: a bar with rate and
// remaining time on a terminal, a line now and then elsewhere. It may be used from
// several goroutines.
type Progress struct {
	w     io.Writer
	what  string // plural: "packages"
	total int
	began time.Time

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: plain lines
	done  int
	said  time.Time // when the last plain line was written
	ended bool
}

// NewProgress begins at nought of total. what names the things, in the plural.
func NewProgress(w io.Writer, total int, what string) *Progress {
	now := time.Now()
	p := &Progress{w: w, what: what, total: total, began: now, said: now}
	if Interactive(w) {
		p.bar = newBar(w, total, what)
	}
	return p
}

func newBar(w io.Writer, total int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(what),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionUseANSICodes(true),
	)
}

// Set says how many are done. It never goes back.
func (p *Progress) Set(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done <= p.done || p.ended {
		return
	}
	p.done = min(done, p.total)
	if p.bar != nil {
		_ = p.bar.Set(p.done) // what can not be drawn is not needed
		return
	}
	if now := time.Now(); now.Sub(p.said) >= plainEvery {
		p.said = now
		if p.done < p.total { // else End says it
			p.line(now)
		}
	}
}

// Sayf writes a line of text above the bar.
func (p *Progress) Sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil && !p.ended {
		_ = p.bar.Clear()
		defer func() { _ = p.bar.RenderBlank() }()
	}
	_, _ = fmt.Fprintln(p.w, printable(fmt.Sprintf(format, args...)))
}

// End takes the bar away and writes the last line. It may be called more than once.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.line(time.Now())
}

func (p *Progress) line(now time.Time) {
	took := now.Sub(p.began)
	rate := float64(p.done) / max(took.Seconds(), 1e-3)
	text := fmt.Sprintf("%d of %d %s in %s, %.0f/s", p.done, p.total, p.what, took.Round(10*time.Millisecond), rate)
	if left := p.total - p.done; left > 0 && p.done > 0 && !p.ended {
		eta := time.Duration(float64(left) / rate * float64(time.Second))
		text += fmt.Sprintf(", %s left", eta.Round(time.Second))
	}
	_, _ = fmt.Fprintln(p.w, text)
}
