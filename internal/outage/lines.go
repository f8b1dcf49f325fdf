package outage

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/text"
)

// maxInstances is the number of lines with the same message that pass in a minute if each names another instance or limit.
const maxInstances = 10

// lines counts repeated lines by message.
type lines struct {
	mu  sync.Mutex
	all map[string]*line
}

// line describes the lines with one message within a minute.
type line struct {
	began    time.Time
	written  []string // instances and limits that were written; "" for a line without one
	repeated int
	last     slog.Record
	to       slog.Handler // handler of last
}

func newLines() *lines { return &lines{all: make(map[string]*line)} }

// Logger returns the Reporter's logger with a limit on repeated lines. See the package documentation.
func (r *Reporter) Logger() *slog.Logger {
	return slog.New(&limiter{Handler: r.log.Handler(), lines: r.lines})
}

// limiter is a slog.Handler that limits repeated lines.
type limiter struct {
	slog.Handler

	lines   *lines
	about   about // from the attributes of the logger
	grouped bool  // further attributes are in a group, and do not count for about
}

// about is the subject of a line. Lines with the same message repeat each other unless they name different instances or limits.
type about struct {
	named    bool   // the line names a partition, an instance or a limit
	instance string // instance or limit
}

func (a *about) see(attr slog.Attr) {
	switch attr.Key {
	case "instance", "of", "limit":
		a.named, a.instance = true, attr.Value.String()
	case "partition":
		a.named = true
	}
}

// Handle writes the record, or counts it.
func (h *limiter) Handle(ctx context.Context, rec slog.Record) error {
	rec = shortened(rec)
	if about := h.aboutOf(rec); limited(rec.Level, about) && !h.lines.pass(h.Handler, rec, about.instance) {
		return nil
	}
	return h.Handler.Handle(ctx, rec)
}

// maxValue bounds the bytes of a string or an error in an attribute, because it may quote data of any size.
const maxValue = 1 << 10

// shortened cuts long attributes of a record.
func shortened(rec slog.Record) slog.Record {
	long := false
	rec.Attrs(func(a slog.Attr) bool {
		_, long = short(a)
		return !long
	})
	if !long {
		return rec
	}
	out := slog.NewRecord(rec.Time, rec.Level, rec.Message, rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		a, _ = short(a)
		out.AddAttrs(a)
		return true
	})
	return out
}

func short(a slog.Attr) (_ slog.Attr, cut bool) {
	value := ""
	switch a.Value.Kind() {
	case slog.KindString:
		value = a.Value.String()
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			value = err.Error()
		}
	default:
	}
	if len(value) <= maxValue {
		return a, false
	}
	return slog.String(a.Key, text.Shorten(value, maxValue)), true
}

// WithAttrs implements slog.Handler.
func (h *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.Handler = h.Handler.WithAttrs(attrs)
	if !n.grouped {
		for _, a := range attrs {
			n.about.see(a)
		}
	}
	return &n
}

// WithGroup implements slog.Handler.
func (h *limiter) WithGroup(name string) slog.Handler {
	n := *h
	n.Handler, n.grouped = h.Handler.WithGroup(name), h.grouped || name != ""
	return &n
}

func (h *limiter) aboutOf(rec slog.Record) about {
	out := h.about
	if !h.grouped {
		rec.Attrs(func(a slog.Attr) bool {
			out.see(a)
			return true
		})
	}
	return out
}

// limited reports whether a line is of a kind that a fault, or the end of one, may cause thousands of times.
func limited(level slog.Level, a about) bool {
	return level >= slog.LevelWarn || level >= slog.LevelInfo && a.named
}

// pass reports whether a line is written; otherwise it counts the line.
func (l *lines) pass(to slog.Handler, rec slog.Record, instance string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, ok := l.all[rec.Message]
	if !ok || time.Since(now.began) > 2*summary { // without Run there is no summary
		l.all[rec.Message] = &line{began: time.Now(), written: []string{instance}}
		return true
	}
	if len(now.written) < maxInstances && !slices.Contains(now.written, instance) {
		now.written = append(now.written, instance)
		return true
	}
	now.repeated++
	now.last, now.to = rec, to
	return false
}

// flush writes the summaries of the minutes that have ended by at; the zero time stands for all minutes.
func (l *lines) flush(at time.Time) {
	var due []*line
	l.mu.Lock()
	for msg, now := range l.all {
		if !at.IsZero() && at.Sub(now.began) < summary {
			continue
		}
		delete(l.all, msg)
		if now.repeated == 0 {
			continue
		}
		due = append(due, now)
		if !at.IsZero() { // the summary is the first line of the next minute
			l.all[msg] = &line{began: at, written: now.written}
		}
	}
	l.mu.Unlock()
	for _, now := range due {
		rec := now.last.Clone()
		rec.AddAttrs(slog.Int("repeated", now.repeated))
		_ = now.to.Handle(context.Background(), rec) // an error cannot be reported anywhere
	}
}
