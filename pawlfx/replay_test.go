package pawlfx_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/history"
)

var film = pawl.NewOrchestration[string, string]("film")

func makeFilm(ctx *pawl.Context, name string) (string, error) { return encode.Call(ctx, name) }

func ExampleReplay() {
	films := pawlfx.Orchestrations(func() []pawl.OrchestrationBinding {
		return []pawl.OrchestrationBinding{film.Do(makeFilm)}
	})
	os.Exit(pawlfx.Replay(os.Stdout, os.Args[1:], films)) // pawl export film-1 > film-1.json; films-replay film-1.json
}

func TestReplayReportsWhetherTheCodeFits(t *testing.T) {
	var lines []any
	codec, err := pawlcodec.New(pawlcodec.Options{Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	long := history.Payload{Type: history.TypeJSON, Data: []byte(`"` + strings.Repeat("x", 8<<10) + `"`)}
	for i, ev := range []history.Event{
		&history.Started{Name: "film", Execution: 1, Payload: (*sealing.Codec)(codec).Seal(nil, long)},
		&history.ActivityScheduled{Name: "encode", Queue: "encode", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}, Attempt: 1},
	} {
		ev.Meta().ID, ev.Meta().At = uint64(i+1), 1_790_000_000_000
		l, err := show.JSON("film-1", ev)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	file := filepath.Join(t.TempDir(), "film-1.json")
	write := func(version int) {
		t.Helper()
		b, err := json.Marshal(map[string]any{"pawl_export": version, "instance": map[string]any{}, "executions": []any{map[string]any{"execution": 1, "events": lines}}})
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	films := func(fn func(ctx *pawl.Context, in string) (string, error)) (int, string) {
		var out strings.Builder
		code := pawlfx.Replay(&out, []string{file}, pawlfx.Payloads(codec), pawlfx.Orchestrations(func() []pawl.OrchestrationBinding { return []pawl.OrchestrationBinding{film.Do(fn)} }))
		return code, out.String()
	}
	write(show.ExportVersion)
	if code, out := films(func(ctx *pawl.Context, in string) (string, error) { return encode.Call(ctx, in[:1]) }); code != 0 || !strings.Contains(out, "film-1 fits, 2 events") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out := films(func(*pawl.Context, string) (string, error) { return "", nil }); code != 1 || !strings.Contains(out, "diverges at event 2") {
		t.Errorf("other code: exit code %d: %s", code, out)
	}
	var out strings.Builder
	if code := pawlfx.Replay(&out, []string{file}); code != 1 || !strings.Contains(out.String(), "does not have") {
		t.Errorf("no code: exit code %d: %s", code, out.String())
	}
	write(show.ExportVersion + 1)
	if code, out := films(nil); code != 1 || !strings.Contains(out, "newer version") {
		t.Errorf("newer export: exit code %d: %s", code, out)
	}
}
