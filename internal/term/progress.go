package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	plainInterval = 2 * time.Second        // minimum between two lines of progress where there is no terminal
	barInterval   = 100 * time.Millisecond // minimum between two drawings of the bar
	minBar        = 10                     // columns; a narrower bar is omitted
	clearLine     = "\r\x1b[K"
)

// Progress shows the progress of work with a known total: on a terminal one line with a bar, rate and remaining time, elsewhere a line
// of text at intervals. It is safe for concurrent use.
type Progress struct {
	w     io.Writer
	what  string // plural: "packages"
	total int
	began time.Time
	width func() int // width of the terminal; nil without a terminal

	mu    sync.Mutex
	done  int
	base  int       // finished before this process began; not counted in the rate
	last  time.Time // when progress was last written
	ended bool
}

// NewProgress returns a Progress at zero of total. what is a plural noun.
func NewProgress(w io.Writer, total int, what string) *Progress {
	now := time.Now()
	p := &Progress{w: w, what: what, total: total, began: now, last: now}
	if Interactive(w) {
		p.width = func() int { return Width(w) }
		p.draw(now)
	}
	return p
}

// StartAt sets the number of items that were finished earlier.
func (p *Progress) StartAt(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.base, p.done = done, done
}

// Set sets the number of finished items. A number lower than the current one is ignored.
func (p *Progress) Set(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(done)
}

// Add adds n to the number of finished items.
func (p *Progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.done + n)
}

func (p *Progress) set(done int) {
	if done <= p.done || p.ended {
		return
	}
	p.done = min(done, p.total)
	now := time.Now()
	switch {
	case p.width != nil && now.Sub(p.last) >= barInterval:
		p.draw(now)
	case p.width == nil && now.Sub(p.last) >= plainInterval && p.done < p.total: // End writes the line of the total
		p.last = now
		_, _ = fmt.Fprintln(p.w, p.text(now))
	}
}

// Printf writes a line of text above the bar.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := printable(fmt.Sprintf(format, args...))
	if p.width == nil || p.ended {
		_, _ = fmt.Fprintln(p.w, text)
		return
	}
	_, _ = fmt.Fprint(p.w, clearLine, strings.Join(Wrap(text, max(p.width(), minFold)), "\n"), "\n")
	p.draw(time.Now())
}

// End removes the bar and writes the last line. It may be called more than once.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.width != nil {
		_, _ = fmt.Fprint(p.w, clearLine)
	}
	_, _ = fmt.Fprintln(p.w, p.text(time.Now()))
}

// draw writes the bar and the numbers on one line.
func (p *Progress) draw(now time.Time) {
	p.last = now
	width := p.width()
	if width <= 0 {
		width = 80
	}
	text := p.text(now)
	if room := width - utf8.RuneCountInString(text) - 3; room >= minBar { // a space before and after the bar, and the last column
		filled := room * p.done / max(p.total, 1)
		text = strings.Repeat("█", filled) + strings.Repeat("░", room-filled) + " " + text
	} else if runes := []rune(text); len(runes) >= width {
		text = string(runes[:width-1])
	}
	_, _ = fmt.Fprint(p.w, clearLine, text)
}

func (p *Progress) text(now time.Time) string {
	took := now.Sub(p.began)
	rate := float64(p.done-p.base) / max(took.Seconds(), 1e-3)
	text := fmt.Sprintf("%d of %d %s in %s, %.0f/s", p.done, p.total, p.what, took.Round(10*time.Millisecond), rate)
	if p.width != nil && !p.ended { // shorter
		text = fmt.Sprintf("%d/%d %s, %.0f/s", p.done, p.total, p.what, rate)
	}
	if left := p.total - p.done; left > 0 && rate > 0 && !p.ended {
		text += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}
