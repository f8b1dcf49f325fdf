package pawltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// History is the history so far, one line an event: its id, the virtual time since the
// start, and what it is, in the words of pawl history.
func (e *Env) History() string { return text(e.events) }

func text(events []history.Event) string {
	var b strings.Builder
	for _, ev := range events {
		since := time.Duration(ev.Meta().At-events[0].Meta().At) * time.Millisecond
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%3d  %-8s  %-23s  %s", ev.Meta().ID, since, show.Kind(ev), show.Summary(ev)), " "))
	}
	return b.String()
}

// WantHistory demands that the history is this one, line by line. How many spaces are
// between words, and around lines, does not matter; lines without any are left out.
func (e *Env) WantHistory(want string) {
	e.tb.Helper()
	got, wanted := lines(e.History()), lines(want)
	for i := range max(len(got), len(wanted)) {
		switch {
		case i >= len(got):
			e.tb.Errorf("the history ends before %q:\n%s", wanted[i], e.History())
		case i >= len(wanted):
			e.tb.Errorf("the history goes on with %q:\n%s", got[i], e.History())
		case got[i] != wanted[i]:
			e.tb.Errorf("the history has %q, not %q:\n%s", got[i], wanted[i], e.History())
		default:
			continue
		}
		return
	}
}

// WantLines demands that the history has, in this order, lines that contain the parts
// given, and perhaps others between them.
func (e *Env) WantLines(parts ...string) {
	e.tb.Helper()
	rest := lines(e.History())
	for _, part := range parts {
		part = strings.Join(strings.Fields(part), " ")
		for len(rest) > 0 && !strings.Contains(rest[0], part) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			e.tb.Errorf("the history has no %q, or not behind those before it:\n%s", part, e.History())
			return
		}
		rest = rest[1:]
	}
}

func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// Export gives the history so far as pawl history --json does.
func (e *Env) Export() []byte {
	e.tb.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, ev := range e.events {
		line, err := show.JSON(e.id.Instance, ev)
		if err == nil {
			err = enc.Encode(line)
		}
		if err != nil {
			e.tb.Fatalf("export event %d: %v", ev.Meta().ID, err)
		}
	}
	return b.Bytes()
}
