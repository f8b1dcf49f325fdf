package exported_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/exported"
	"github.com/pawlrun/pawl/pkg/history"
)

// Without the guard, the replay of code that waits for a channel would not end.
func TestReplayOfCodeThatBlocksReportsItsStack(t *testing.T) {
	t.Parallel()
	release, left := make(chan struct{}), make(chan struct{})
	code, err := author.NewRegistry(pawl.NewOrchestration[pawl.None, pawl.None]("blocked").Do(func(*pawl.Context, pawl.None) (pawl.None, error) {
		defer close(left)
		<-release
		return pawl.None{}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	start := &history.Started{Name: "blocked", Origin: history.Position{Seq: 1, Time: 1}, Execution: 1}
	start.ID, start.At = 1, 1
	raw, err := eventcodec.Encode(start)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{"instance": "order-1", "id": 1, "raw": raw})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "order-1.json")
	if err := os.WriteFile(file, line, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fit, err := exported.ReplayFiles(&out, code, nil, []string{file})
	if fit || err != nil || !strings.Contains(out.String(), "exported_test.go") {
		t.Errorf("fit %t, %v: %s", fit, err, out.String())
	}
	close(release)
	<-left
}
