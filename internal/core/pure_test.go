package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The package starts no goroutine, uses no channel and reads no clock. tests/layers_test.go checks its imports.
func TestCoreIsPure(t *testing.T) {
	banned := map[string][]string{"replay": {"Execution", "New"}}
	banned["time"] = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) < 20 {
		t.Fatal(len(paths), err)
	}
	files := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s: a %T", files.Position(n.Pos()), n)
			case *ast.SelectorExpr:
				if pkg, is := n.X.(*ast.Ident); is && slices.Contains(banned[pkg.Name], n.Sel.Name) {
					t.Errorf("%s: %s.%s", files.Position(n.Pos()), pkg.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}
