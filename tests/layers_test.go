// Package tests contains tests of the whole source tree.
package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/pawlrun/pawl"

// floor returns the floor of a package in docs/architecture.md. A package imports only packages on lower floors; packages on
// floor 10 also import each other.
func floor(pkg string) int {
	switch strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/") {
	case "internal/build", "internal/filter", "internal/text", "internal/stacks", "internal/timers":
		return -2
	case "internal/outage", "pkg/cancel":
		return -1
	case "pkg/history", "pkg/lease", "internal/schedule", "internal/redisx", "internal/failpoint", "internal/redact", "internal/wire", "internal/payload":
		return 0
	case "internal/attribute", "internal/effectid", "internal/eventcodec", "internal/fold":
		return 1
	case "internal/imported", "internal/limit", "internal/message", "internal/propagate", "internal/record", "internal/sealing":
		return 2
	case "internal/store", "internal/leases", "internal/limiter", "internal/transport", "internal/replay", "internal/partition", "internal/tracing", "internal/memlimit", "internal/show", "pawlcodec":
		return 3
	case "internal/author", "internal/promx", "internal/request", "pkg/queue":
		return 4
	case "":
		return 5
	case "internal/builtin", "internal/core":
		return 6
	case "internal/turn", "internal/memstore", "internal/pool", "internal/recording":
		return 7
	case "internal/shard":
		return 8
	case "exec", "pkg/client", "pkg/orchestrator", "pkg/worker":
		return 9
	default: // embedded, pawlfx, cmd, examples, internal/settings, internal/term, test helpers
		return 10
	}
}

// pure are the packages that the core may import: data, and pure computations on data.
var pure = []string{
	"bytes", "cmp", "container/list", "encoding/json", "errors", "fmt", "maps", "math", "slices", "strconv", "strings", "time",
	module + "/internal/author", module + "/internal/effectid", module + "/internal/eventcodec", module + "/internal/fold", module + "/internal/imported",
	module + "/internal/limit", module + "/internal/message", module + "/internal/propagate", module + "/internal/record", module + "/internal/replay",
	module + "/internal/sealing", module + "/internal/text", module + "/pkg/cancel", module + "/pkg/history",
}

// TestCoreImportsOnlyPurePackages checks that the core neither imports nor links a package with a connection.
func TestCoreImportsOnlyPurePackages(t *testing.T) {
	for _, p := range list(t) {
		if p.ImportPath != module+"/internal/core" {
			continue
		}
		for _, imp := range p.Imports {
			if !slices.Contains(pure, imp) {
				t.Errorf("internal/core imports %s", imp)
			}
		}
		for _, d := range p.Deps {
			if d == "net" || strings.Contains(d, "redis") || strings.Contains(d, "nats") {
				t.Errorf("internal/core links %s", d)
			}
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) []listed {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tree lists the packages of the module, once.
var tree = sync.OnceValues(func() ([]listed, error) { //nolint:gochecknoglobals // read only
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	if err != nil {
		return nil, err
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
})

func TestPackagesImportOnlyLowerFloors(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if from, to := floor(p.ImportPath), floor(imp); to > from || to == from && from != 10 {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, from, imp, to)
			}
		}
	}
}

func TestAuthorsClientsGatewaysAndTestKitLinkNoRedis(t *testing.T) {
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

// TestProgramsLinkOnlyTheNamedModules checks the dependencies of programs that import Pawl. A server module (nats-server,
// fx, kong) in a list would be linked into the programs of all users. The list of a client is exact.
func TestProgramsLinkOnlyTheNamedModules(t *testing.T) {
	clients := []string{
		"github.com/klauspost/compress", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/nats-io/nuid",
		"github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/tagparser/v2", "golang.org/x/crypto", "golang.org/x/sys",
	}
	fleets := append(slices.Clone(clients),
		"github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/munnerz/goautoneg", "github.com/prometheus/client_golang",
		"github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/procfs",
		"github.com/redis/go-redis/v9", "go.uber.org/atomic", "golang.org/x/sync", "google.golang.org/protobuf",
	)
	for _, program := range []struct {
		imports []string
		allowed []string
	}{
		{[]string{"", "/pkg/client"}, clients},
		{[]string{"", "/pkg/worker"}, fleets},
		{[]string{"", "/pkg/orchestrator"}, fleets},
	} {
		args := []string{"list", "-deps", "-f", `{{with .Module}}{{.Path}} {{end}}{{.ImportPath}}`}
		for _, p := range program.imports {
			args = append(args, module+p)
		}
		out, err := exec.Command("go", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		linked := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			mod, pkg, ok := strings.Cut(strings.TrimSpace(line), " ")
			switch {
			case !ok: // a package of the standard library
			case mod == module && (pkg == module+"/internal/embedded" || pkg == module+"/internal/gateway" || pkg == module+"/pawltest"):
				t.Errorf("%v links %s", program.imports, pkg)
			case mod != module && !slices.Contains(program.allowed, mod):
				t.Errorf("%v links %s of %s", program.imports, pkg, mod)
			default:
				linked[mod] = true
			}
		}
		delete(linked, module)
		if program.imports[1] == "/pkg/client" && len(linked) != len(clients) {
			t.Errorf("%v links %d modules, not the %d of the list: %v", program.imports, len(linked), len(clients), slices.Sorted(maps.Keys(linked)))
		}
	}
}
