package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxMethods = 40
	maxFields  = 15
)

// fewFields are the packages whose structs have at most maxFields fields.
var fewFields = []string{"internal/core", "internal/shard", "internal/limiter", "pkg/worker"} //nolint:gochecknoglobals // read only

// large are the types with more than maxMethods methods, including those of embedded types, and the reason for each.
var large = map[string]string{ //nolint:gochecknoglobals // read only
	"pkg/client.Client":         "all operations of a client are its methods; each group of them is a type",
	"pkg/client.parts":          "those groups",
	"internal/transport.Conn":   "all operations of a connection are its methods; each part of it is a type",
	"internal/fold.State":       "what has been decided is read from one value; 40 are its own",
	"internal/store.Store":      "it writes what a Reader reads",
	"internal/replay.Execution": "its own are for the owner, who reads also what it records; a program is given its Code",
	"internal/replay.Code":      "all that a program may decide, on what is recorded",
	"internal/replay.record":    "what is recorded is so by the strands that it schedules",
}

// methodSet is the set of methods and embedded types of a type, without test files.
type methodSet struct {
	names  map[string]bool
	embeds []string
}

// TestTypesAreSmall checks that no type declares more than 40 methods, including types in tests, and that no struct of the
// owner, its shell, the worker and the limiter has more than 15 fields, except the Config that a user of the worker sets.
// Promoted fields are not counted. Promoted methods are counted, except in tests, which embed their harness.
func TestTypesAreSmall(t *testing.T) {
	methods, sets := map[string]int{}, map[string]*methodSet{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			collectMethods(sets, dir, file)
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil {
					methods[dir+"."+receiver(decl.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				if slices.Contains(fewFields, dir) && dir+path[strings.LastIndex(path, "/"):] != "pkg/worker/config.go" {
					checkFields(t, dir, decl)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > maxMethods {
			t.Errorf("%s has %d methods, %d are allowed", name, n, maxMethods)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		all := map[string]bool{}
		promote(sets, name, all, map[string]bool{})
		switch n, why := len(all), large[name]; {
		case n > maxMethods && why == "":
			t.Errorf("%s has %d methods with those of what it embeds, %d are allowed: name the field", name, n, maxMethods)
		case n <= maxMethods && why != "":
			t.Errorf("%s has %d methods: it is no exception", name, n)
		}
	}
}

// collectMethods adds the methods and embedded types of a file. A type is identified by its directory and name.
func collectMethods(sets map[string]*methodSet, dir string, file *ast.File) {
	of := func(name string) *methodSet {
		if sets[name] == nil {
			sets[name] = &methodSet{names: map[string]bool{}}
		}
		return sets[name]
	}
	imports := map[string]string{} // directories by name
	for _, i := range file.Imports {
		if at, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "github.com/pawlrun/pawl/"); ok {
			imports[at[strings.LastIndex(at, "/")+1:]] = at
		}
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
			of(dir + "." + receiver(f.Recv.List[0].Type)).names[f.Name.Name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		st, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		set := of(dir + "." + spec.Name.Name)
		for _, f := range st.Fields.List {
			x := f.Type
			if p, ok := x.(*ast.StarExpr); ok {
				x = p.X
			}
			if other, ok := x.(*ast.SelectorExpr); ok && len(f.Names) == 0 {
				set.embeds = append(set.embeds, imports[other.X.(*ast.Ident).Name]+"."+other.Sel.Name)
			} else if len(f.Names) == 0 {
				set.embeds = append(set.embeds, dir+"."+receiver(x))
			}
		}
		return true
	})
}

// promote adds the names of the methods of a type and of its embedded types.
func promote(sets map[string]*methodSet, name string, all, seen map[string]bool) {
	if sets[name] == nil || seen[name] {
		return
	}
	seen[name] = true
	maps.Copy(all, sets[name].names)
	for _, embedded := range sets[name].embeds {
		promote(sets, embedded, all, seen)
	}
}

func checkFields(t *testing.T, dir string, decl *ast.GenDecl) {
	t.Helper()
	ast.Inspect(decl, func(n ast.Node) bool {
		st, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		fields := 0
		for _, f := range st.Fields.List {
			fields += max(len(f.Names), 1)
		}
		if fields > maxFields {
			name := "a struct"
			if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok {
				name = spec.Name.Name
			}
			t.Errorf("%s.%s has %d fields, %d are allowed", dir, name, fields, maxFields)
		}
		return true
	})
}

// receiver returns the name of the type of a method's receiver.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
