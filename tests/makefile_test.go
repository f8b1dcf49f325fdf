package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packages parses the packages in a variable of the Makefile, by directory.
func packages(t *testing.T, set *token.FileSet, variable string) map[string][]*ast.File {
	t.Helper()
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + variable + ` = ((?:.*\\\n)*.*)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the Makefile has no %s", variable)
	}
	all := map[string][]*ast.File{}
	for dir := range strings.FieldsSeq(strings.ReplaceAll(string(m[1]), "\\\n", " ")) {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no Go files, %v", dir, err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			all[dir] = append(all[dir], f)
		}
	}
	return all
}

// make test runs the packages in PROCESSES without the race detector, because the tested code runs in other processes.
func TestPackagesOfProcessesStartProcesses(t *testing.T) {
	for dir, files := range packages(t, token.NewFileSet(), "PROCESSES") {
		if !slices.ContainsFunc(files, func(f *ast.File) bool {
			return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
				return i.Path.Value == `"github.com/pawlrun/pawl/tests/stack"` || i.Path.Value == `"github.com/pawlrun/pawl/internal/process"`
			})
		}) {
			t.Errorf("%s imports neither tests/stack nor internal/process: remove it from PROCESSES in the Makefile", dir)
		}
	}
}

// make test runs the packages in SEQUENTIAL without the race detector.
func TestSequentialPackagesStartNoGoroutine(t *testing.T) {
	set := token.NewFileSet()
	for dir, files := range packages(t, set, "SEQUENTIAL") {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if startsGoroutine(n) {
					t.Errorf("%s starts a goroutine: remove %s from SEQUENTIAL in the Makefile", set.Position(n.Pos()), dir)
				}
				return true
			})
		}
	}
}

// startsGoroutine reports whether a node is a go statement or calls a method named Go or Parallel.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "Go" || s.Sel.Name == "Parallel")
	default:
		return false
	}
}
