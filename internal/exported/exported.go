// Package exported replays exported histories with the code of a process: see docs/decisions/0069-exports.md.
package exported

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/stacks"
	"github.com/pawlrun/pawl/pkg/history"
)

// ReplayFiles replays the histories in files with the code of a registry, and with a codec if their payloads are sealed. It writes one
// line per file and reports whether the code matches all of them. A payload that encodes differently is reported but is not a mismatch,
// because an orchestrator keeps the recorded one. Code that blocks is a mismatch: its stack is written, and its goroutine is abandoned.
func ReplayFiles(w io.Writer, code *author.Registry, codec *sealing.Codec, files []string) (fit bool, err error) {
	fit = true
	for _, file := range files {
		text, failed := replayFile(code, codec, file)
		if failed != nil {
			fit, text = false, failed.Error()
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", file, text); err != nil {
			return false, err
		}
	}
	return fit, nil
}

func replayFile(code *author.Registry, codec *sealing.Codec, file string) (text string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	instance, executions, err := show.ReadExport(b)
	if err != nil {
		return "", err
	}
	n, changed := 0, 0
	opts := replay.Options{Codec: codec, PayloadChanged: func(uint64, string) { changed++ }}
	for _, events := range executions {
		if err := replayOne(code, instance, events, opts); err != nil {
			return "", err
		}
		n += len(events)
	}
	if n == 0 {
		return "", fmt.Errorf("instance %s has no history", instance)
	}
	text = fmt.Sprintf("instance %s fits, %d events", instance, n)
	if changed > 0 {
		text += fmt.Sprintf("; %d payloads encode differently, and the recorded ones are kept", changed)
	}
	return text, nil
}

func replayOne(code *author.Registry, instance string, events []history.Event, opts replay.Options) error {
	if _, broken := fold.Check(events); len(broken) > 0 {
		return fmt.Errorf("the history of instance %s is broken: %w", instance, errors.Join(broken...))
	}
	if len(events) == 0 {
		return nil
	}
	start, _ := events[0].(*history.Started) // Check has verified the history
	o, ok := code.Recorded(start.Name, start.Version)
	if !ok {
		return fmt.Errorf("instance %s is of orchestration %s, version %q, which this program does not have", instance, start.Name, start.Version)
	}
	id := effectid.Identity{Instance: instance, Origin: start.Origin, Execution: start.Execution}
	var err error
	stack, blocked := stacks.NewGuard().Run(func() {
		x := replay.New(id, o.Program, opts)
		err = errors.Join(x.Replay(events), x.Evict())
	}, "replay.(*strand).park")
	if blocked {
		return fmt.Errorf("the code of instance %s blocks: it loops, or waits for something other than Pawl's futures\n%s", instance, stack)
	}
	return err
}
