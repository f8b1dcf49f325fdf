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

// fewFields names the packages whose structs have at most maxFields fields.
var fewFields = []string{"internal/core", "internal/shard", "internal/limiter", "pkg/worker"} //nolint:gochecknoglobals // read only

// TestTypesAreSmall holds that no type, of tests neither, declares more than 40 methods, and that no struct of the owner, its shell, the
// worker and the limiter has more than 15 fields, but the Config that a user of the worker sets. Promoted methods and fields are not counted: an embedded type is held by itself.
func TestTypesAreSmall(t *testing.T) {
	methods := map[string]int{}
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

// receiver is the name of the type of a method's receiver.
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
