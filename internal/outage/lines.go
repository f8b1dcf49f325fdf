package outage

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/text"
)

// instances is how many lines with the same message pass in a minute if each names another instance, or another gate.
const instances = 10

// lines counts what was repeated, by message.
type lines struct {
	mu  sync.Mutex
	all map[string]*line
}

// line is a message in the minute that began with its first line.
type line struct {
	began    time.Time
	written  []string // instances and gates; "" of a line that names none
	repeated int
	last     slog.Record
	to       slog.Handler // of the last
}

func newLines() *lines { return &lines{all: make(map[string]*line)} }

// Logger is the Reporter's logger with repeated lines limited. See the package's doc.
func (r *Reporter) Logger() *slog.Logger {
	return slog.New(&limiter{Handler: r.log.Handler(), lines: r.lines})
}

// limiter is a slog.Handler.
type limiter struct {
	slog.Handler

	lines   *lines
	about   about // of the attributes that the logger has
	grouped bool  // attributes to come are in a group, and so not among them
}

// about is what a line is about. Lines of one message repeat each other unless they name different instances or gates.
type about struct {
	named    bool   // a partition, an instance or a gate
	instance string // or gate
}

func (a *about) see(attr slog.Attr) {
	switch attr.Key {
	case "instance", "of", "gate":
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

// maxValue is how many bytes the text or the error of an attribute has at the most: it may quote anything.
const maxValue = 1 << 10

// shortened cuts the long attributes of a record.
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

// WithAttrs is part of slog.Handler.
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

// WithGroup is part of slog.Handler.
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

// limited reports whether a line is one of those of which a fault, or the end of one, may bring thousands.
func limited(level slog.Level, a about) bool {
	return level >= slog.LevelWarn || level >= slog.LevelInfo && a.named
}

// pass reports whether a line is written; else it is counted.
func (l *lines) pass(to slog.Handler, rec slog.Record, instance string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, ok := l.all[rec.Message]
	if !ok || time.Since(now.began) > 2*summary { // without Run there is no summary
		l.all[rec.Message] = &line{began: time.Now(), written: []string{instance}}
		return true
	}
	if len(now.written) < instances && !slices.Contains(now.written, instance) {
		now.written = append(now.written, instance)
		return true
	}
	now.repeated++
	now.last, now.to = rec, to
	return false
}

// flush writes what was repeated in the minutes that are over at a time; the zero time: in all.
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
		if !at.IsZero() { // the summary is the next minute's line
			l.all[msg] = &line{began: at, written: now.written}
		}
	}
	l.mu.Unlock()
	for _, now := range due {
		rec := now.last.Clone()
		rec.AddAttrs(slog.Int("repeated", now.repeated))
		_ = now.to.Handle(context.Background(), rec) // nowhere to report it
	}
}
