package orchestrator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What decides is pure: it starts no goroutine, uses no channel, reads no clock and no random source. That it does no I/O follows from
// its types, for none of them has a connection.
func TestWhatDecidesIsPure(t *testing.T) {
	pure := []string{
		"actor", "schedule", "inboxes", "turns", "admission", "commits", "outbox", "leases", "notices", "removals",
		"instance", "memory", "current", "turn", "unread", "clock", "gateNotice", "gateCall", "gateCalls",
	}
	impure := map[string][]string{"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker"}, "rand": nil, "nuid": nil, "os": nil, "context": nil}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, methods := token.NewFileSet(), 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !slices.Contains(pure, receiver(f)) {
				continue
			}
			methods++
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt:
					t.Errorf("%s: %s.%s has a %T", files.Position(n.Pos()), receiver(f), f.Name, n)
				case *ast.SelectorExpr:
					pkg, is := n.X.(*ast.Ident)
					if !is {
						return true
					}
					if names, banned := impure[pkg.Name]; banned && (names == nil || slices.Contains(names, n.Sel.Name)) {
						t.Errorf("%s: %s.%s uses %s.%s", files.Position(n.Pos()), receiver(f), f.Name, pkg.Name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if methods < 150 {
		t.Errorf("only %d methods", methods)
	}
}

func receiver(f *ast.FuncDecl) string {
	x := f.Recv.List[0].Type
	if p, ok := x.(*ast.StarExpr); ok {
		x = p.X
	}
	name, _ := x.(*ast.Ident)
	return name.Name
}
