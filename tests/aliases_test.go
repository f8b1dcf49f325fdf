package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// aliases are the public aliases of internal types, and the reason for each.
var aliases = map[string]string{ //nolint:gochecknoglobals // read only
	"pawl.Misuse": "replay returns it through every method of Code, and errors.As matches the type; its comment names the fields",
}

// TestPublicPackagesHaveNoAliasesOfInternalTypes checks that go doc shows the fields of every public type.
func TestPublicPackagesHaveNoAliasesOfInternalTypes(t *testing.T) {
	exceptions := maps.Clone(aliases)
	for path, src := range goFiles(t, ".go") {
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || !isPublic(dir) {
			continue
		}
		for _, name := range internalAliases(t, path, src) {
			if _, ok := exceptions[name]; !ok {
				t.Errorf("%s: %s is an alias of an internal type: go doc shows no fields", path, name)
			}
			delete(exceptions, name)
		}
	}
	for name := range exceptions {
		t.Errorf("%s is no alias: it is no exception", name)
	}
}

// isPublic reports whether programs of users import the package in a directory.
func isPublic(dir string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(dir, "../"), "/")
	switch first {
	case "..", ".", "pkg", "exec", "pawlcodec", "pawlfx", "pawlotel", "pawltest":
		return !strings.Contains(dir, "/internal")
	}
	return false
}

// internalAliases returns the names of the exported types of a file that are aliases of types of internal packages.
func internalAliases(t *testing.T, path, src string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	internal := map[string]bool{}
	for _, i := range file.Imports {
		if at, err := strconv.Unquote(i.Path.Value); err == nil && strings.HasPrefix(at, module+"/internal/") {
			name := at[strings.LastIndex(at, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			internal[name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
			return true
		}
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := x.X.(*ast.Ident); ok && internal[pkg.Name] {
					names = append(names, file.Name.Name+"."+spec.Name.Name)
				}
			}
			return true
		})
		return true
	})
	return names
}

func TestAliasesAreFoundHoweverTheyAreWritten(t *testing.T) {
	src := `package p
import (
	"time"
	"github.com/pawlrun/pawl/internal/record"
	other "github.com/pawlrun/pawl/internal/message"
)
type A = record.A
type (
	B = other.B
	C = []*record.C
	D = time.Time
	E struct{ record.E }
	f = record.F
)`
	if got := strings.Join(internalAliases(t, "p.go", src), " "); got != "p.A p.B p.C" {
		t.Error(got)
	}
}
