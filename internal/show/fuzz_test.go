package show_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// maxError is the maximum length of an error of an import, in bytes. It is part of the answer over HTTP.
const maxError = 4000

// FuzzReadImport reads any bytes as the export of an instance, as an import over HTTP and the command line do. The error of a rejection is
// imported.ErrNoImport with a bounded text. An accepted export that makes a payload is an import that its owner can read.
func FuzzReadImport(f *testing.F) {
	line := func(instance string, events ...history.Event) string {
		var lines []string
		for i, e := range events {
			*e.Meta() = history.Head{ID: uint64(i) + 1, At: 1_790_000_000_000}
			raw, err := eventcodec.Encode(e)
			if err != nil {
				f.Fatal(err)
			}
			lines = append(lines, exportLine(f, show.Line{Instance: instance, ID: uint64(i) + 1, Raw: raw}))
		}
		return strings.Join(lines, "\n")
	}
	started := &history.Started{Name: "hello", Execution: 1}
	running := line("order-1", started, &history.EventReceived{Name: "poke"})
	ended := line("order-1", started, &history.Completed{Result: history.Payload{Type: history.TypeJSON, Data: []byte("1")}})
	f.Add([]byte(running))
	f.Add([]byte(ended + "\n" + running))
	f.Add([]byte(`{"pawl_export":1,"instance":{"attributes":{"a":"b"}},"executions":[{"events":[` + strings.ReplaceAll(ended, "\n", ",") + `]}]}`))
	f.Add([]byte(`{"pawl_export":1,"instance":{"attributes":[]},"executions":[{"events":[` + line("a", started) + `]},{"events":[]}]}`))
	f.Add([]byte(`{"pawl_export":9,"executions":[]}`))
	f.Add([]byte(line(strings.Repeat("i", 10_000), started) + "\n" + line(strings.Repeat("j", 10_000), started)))
	f.Add([]byte(`{"instance":"` + strings.Repeat("i", 10_000) + `","id":1,"raw":"AAAA"}`))
	f.Add([]byte(`{"instance":"i","id":1,"` + strings.Repeat("x", 10_000) + `":1,"raw":` + strings.Repeat("[", 10_000)))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, export []byte) {
		before := bytes.Clone(export)
		m, running, err := show.ReadImport(export)
		if !bytes.Equal(before, export) {
			t.Error("the export was changed")
		}
		if err == nil {
			var p history.Payload
			if p, err = m.Payload(); err == nil {
				checkImport(t, m, running, p)
				return
			}
		}
		if !errors.Is(err, imported.ErrNoImport) || len(err.Error()) > maxError {
			t.Errorf("%d bytes: %.200v", len(err.Error()), err)
		}
	})
}

// checkImport adopts the payload of an import, as the owner of the new instance does.
func checkImport(t *testing.T, m *imported.Instance, running bool, p history.Payload) {
	t.Helper()
	again, err := imported.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	events, err := again.Adopt("order-2", &history.Started{Origin: history.Position{Seq: 7, Time: 7}, Execution: 1})
	if err != nil || len(events) < len(m.Events) {
		t.Errorf("%d of %d events are adopted, running: %t, %v", len(events), len(m.Events), running, err)
	}
}

func exportLine(tb testing.TB, l show.Line) string {
	tb.Helper()
	b, err := json.Marshal(l)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
