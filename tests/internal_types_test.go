package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// withInternalTypes are the public declarations that name a type of an internal package, and the reason for each.
var withInternalTypes = map[string]string{ //nolint:gochecknoglobals // read only
	"pawl.Misuse":                "replay returns it through every method of Code, and errors.As matches the type; its comment names the fields",
	"pawl.AttributeValue":        "the embedded type has a method for Pawl's own packages, and nothing that a program sees",
	"pawlotel.NewTracer":         "only this package implements the interface: what a span has follows the events",
	"pawlotel.Tracer.Emit":       "a method of that interface",
	"orchestrator.Config.Tracer": "its value is that of pawlotel.NewTracer",
}

// TestPublicPackagesNameNoInternalTypes checks that go doc shows the fields of every public type, and that a program can write the type of
// every parameter, result and field. A type that is defined by an internal type is opaque, and allowed.
func TestPublicPackagesNameNoInternalTypes(t *testing.T) {
	exceptions := maps.Clone(withInternalTypes)
	for path, src := range goFiles(t, ".go") {
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || !isPublic(dir) {
			continue
		}
		for _, name := range namingInternalTypes(t, path, src) {
			if _, ok := exceptions[name]; !ok {
				t.Errorf("%s: %s names an internal type, which a program cannot use", path, name)
			}
			delete(exceptions, name)
		}
	}
	for name := range exceptions {
		t.Errorf("%s names no internal type: it is no exception", name)
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

// namingInternalTypes returns the exported declarations of a file that name types of internal packages: aliases, functions, methods and
// fields.
func namingInternalTypes(t *testing.T, path, src string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	internal := internalImports(file)
	check := func(name string, of ast.Node) {
		ast.Inspect(of, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := x.X.(*ast.Ident); ok && internal[pkg.Name] && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			return true
		})
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := file.Name.Name + "."
			if decl.Recv != nil {
				of := receiver(decl.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name += of + "."
			}
			if decl.Name.IsExported() {
				check(name+decl.Name.Name, decl.Type)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() {
					checkType(file.Name.Name+"."+spec.Name.Name, spec, check)
				}
			}
		}
	}
	return names
}

// checkType checks what an exported type shows.
func checkType(name string, spec *ast.TypeSpec, check func(string, ast.Node)) {
	var fields *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	case *ast.FuncType:
		check(name, typ)
	}
	if spec.Assign.IsValid() {
		check(name, spec.Type)
	}
	if fields == nil {
		return
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			check(name, f.Type)
		}
		for _, n := range f.Names {
			if n.IsExported() {
				check(name+"."+n.Name, f.Type)
			}
		}
	}
}

// internalImports returns the names of the internal packages that a file imports.
func internalImports(file *ast.File) map[string]bool {
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
	return internal
}

func TestInternalTypesAreFoundWhereverTheyAreNamed(t *testing.T) {
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
	Opaque record.O
	Func func(record.A)
	Doer interface{ Do(other.B); do(record.C) }
	Plain struct{ X map[string]record.X; y record.Y }
)
func Run(all ...record.A) {}
func run(record.A) {}
func (*Plain) Get() (*other.B, error) { return nil, nil }
func (f) Get() record.A {}`
	if got := strings.Join(namingInternalTypes(t, "p.go", src), " "); got != "p.A p.B p.C p.E p.Func p.Doer.Do p.Plain.X p.Run p.Plain.Get" {
		t.Error(got)
	}
}
