// Package tests holds what concerns the whole tree.
package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawlrun/pawl"

// floors are those of docs/architecture.md. A package imports only from lower floors, and 6 also from its own.
func floor(pkg string) int {
	switch strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/") {
	case "internal/author", "internal/queuemetrics", "internal/request":
		return 3
	case "":
		return 4
	case "internal/text", "internal/stacks":
		return -2
	case "internal/outage":
		return -1
	case "pkg/cancel", "internal/redisx", "internal/failpoint", "internal/redact", "internal/wire", "internal/payload":
		return 0
	case "pkg/history":
		return 1
	case "pkg/history/store", "pkg/lease", "internal/limiter", "pkg/queue", "internal/replay", "internal/partition":
		return 2
	case "exec", "pkg/client", "pkg/orchestrator", "pkg/worker":
		return 5
	default: // embedded, pawlfx, cmd, examples, internal/settings, internal/term, test helpers
		return 6
	}
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

func TestImportsOnlyGoDown(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if from, to := floor(p.ImportPath), floor(imp); to > from || to == from && from != 6 {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, from, imp, to)
			}
		}
	}
}

func TestWhatAnAuthorAClientAGatewayAndATestKitLinkHasNoRedis(t *testing.T) {
	for _, p := range list(t) {
		if !slices.Contains([]string{module, module + "/pkg/client", module + "/internal/gateway", module + "/pawltest"}, p.ImportPath) {
			continue
		}
		for _, d := range p.Deps {
			if strings.Contains(d, "redis") {
				t.Errorf("%s links %s", p.ImportPath, d)
			}
		}
	}
}
