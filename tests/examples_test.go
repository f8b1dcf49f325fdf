package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// documented are the packages of the API, by directory.
var documented = []string{".", "pkg/client", "pkg/orchestrator", "pkg/worker", "pawltest", "pawlfx", "pawlotel", "pawlcodec", "exec",
	"pkg/cancel", "pkg/history", "pkg/lease", "pkg/queue",
} //nolint:gochecknoglobals // read only

// TestExportedFunctionsHaveExamples checks that each exported function and constructor of the API is used in the body of an Example function,
// which shows on pkg.go.dev how it is called.
func TestExportedFunctionsHaveExamples(t *testing.T) {
	used := map[string]bool{}
	var exported []string
	for _, dir := range documented {
		path := module
		if dir != "." {
			path += "/" + dir
		}
		for _, file := range filesOf(t, dir) {
			if strings.HasSuffix(file.name, "_test.go") {
				collectUses(used, file.ast, path)
				continue
			}
			for _, decl := range file.ast.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
					exported = append(exported, path+"."+f.Name.Name)
				}
			}
		}
	}
	if len(exported) < 150 || len(used) < len(exported) {
		t.Fatalf("%d functions, %d of the API are used in examples", len(exported), len(used))
	}
	for _, name := range exported {
		if !used[name] {
			t.Errorf("%s is used in no example", name)
		}
	}
}

type parsedFile struct {
	name string
	ast  *ast.File
}

func filesOf(t *testing.T, dir string) (all []parsedFile) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsedFile{filepath.Base(name), file})
	}
	return all
}

// collectUses adds the functions that the examples of a file use, each with the path of its package. A name without a package is one of the
// package at path.
func collectUses(used map[string]bool, file *ast.File, path string) {
	imports := map[string]string{} // paths by name
	for _, i := range file.Imports {
		at := strings.Trim(i.Path.Value, `"`)
		name := at[strings.LastIndex(at, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = at
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && imports[pkg.Name] != "" {
					used[imports[pkg.Name]+"."+n.Sel.Name] = true
				}
			case *ast.Ident:
				if !strings.HasSuffix(file.Name.Name, "_test") {
					used[path+"."+n.Name] = true
				}
			}
			return true
		})
	}
}
