package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wrappers are the functions that log a message of their caller, with the index of that argument.
var wrappers = map[string]int{"logFailure": 1, "LogFailure": 1, "reportFailure": 1, "writeLog": 9, "failedPull": 0}

// logged is a message that production code logs as a warning or an error. A message that is concatenated has several parts.
type logged struct {
	at    token.Position
	parts []string
}

// warnings returns the messages that a file logs, including those of Log, whose level is a variable.
func warnings(t *testing.T, files *token.FileSet, path string, src string) []logged {
	t.Helper()
	file, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []logged
	for _, d := range file.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			arg := messageOf(call, d)
			if arg < 0 || arg >= len(call.Args) {
				return true
			}
			parts := texts(call.Args[arg], d)
			if len(parts) == 0 {
				t.Errorf("%s: the message has no text that this test finds", files.Position(call.Pos()))
			}
			found = append(found, logged{at: files.Position(call.Pos()), parts: parts})
			return true
		})
	}
	return found
}

// messageOf returns the index of the argument that is the message of a warning or an error; -1: none.
func messageOf(call *ast.CallExpr, in ast.Decl) int {
	var name string
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	if f, is := in.(*ast.FuncDecl); is {
		if _, wrapper := wrappers[f.Name.Name]; wrapper {
			return -1
		}
	}
	if arg, is := wrappers[name]; is {
		return arg
	}
	switch {
	case len(call.Args) == 0:
	case name == "Warn", name == "Error" && !isHTTP(call):
		return 0
	case name == "WarnContext", name == "ErrorContext":
		return 1
	case name == "Log" && len(call.Args) > 2:
		return 2
	}
	return -1
}

// isHTTP reports whether a call is a call of http.Error.
func isHTTP(call *ast.CallExpr) bool {
	f, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	pkg, is := f.X.(*ast.Ident)
	return is && pkg.Name == "http"
}

// texts returns the string literals of an expression, or of the values that the function assigns to it.
func texts(e ast.Expr, in ast.Decl) []string {
	var parts []string
	literals := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil && strings.TrimSpace(s) != "" {
					parts = append(parts, strings.TrimSpace(s))
				}
			}
			return true
		})
	}
	literals(e)
	if len(parts) > 0 {
		return parts
	}
	ast.Inspect(in, func(n ast.Node) bool {
		if a, is := n.(*ast.AssignStmt); is {
			for i, left := range a.Lhs {
				if i < len(a.Rhs) && sameName(left, e) {
					literals(a.Rhs[i])
				}
			}
		}
		return true
	})
	return parts
}

func sameName(a, b ast.Expr) bool {
	switch a := a.(type) {
	case *ast.Ident:
		b, is := b.(*ast.Ident)
		return is && a.Name == b.Name
	case *ast.SelectorExpr:
		b, is := b.(*ast.SelectorExpr)
		return is && a.Sel.Name == b.Sel.Name
	}
	return false
}

// notProduction are directories whose code runs only in tests and examples.
var notProduction = []string{"tests", "examples", "tools", "testdata", "doctest", "natstest", "netfault", "poll", "redistest", "pawltest", "vet"}

func TestEveryWarningAndErrorIsInTroubleshooting(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	files := token.NewFileSet()
	for path, src := range goFiles(t, ".go") {
		dirs := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
		if strings.HasSuffix(path, "_test.go") || slices.ContainsFunc(notProduction, func(d string) bool { return slices.Contains(dirs, d) }) {
			continue
		}
		for _, l := range warnings(t, files, path, src) {
			all = append(all, l.parts...)
			for _, part := range l.parts {
				if !strings.Contains(string(b), part) {
					t.Errorf("%s: %q is not in docs/troubleshooting.md", l.at, part)
				}
				if len(strings.Fields(part)) > 8 || strings.Contains(part, ";") {
					t.Errorf("%s: %q: a message has at most eight words; advice belongs to docs/troubleshooting.md", l.at, part)
				}
			}
		}
	}
	if len(all) < 60 {
		t.Fatalf("only %d messages found", len(all))
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(b), -1) {
		if !slices.ContainsFunc(all, func(part string) bool { return strings.Contains(row[1], part) }) {
			t.Errorf("docs/troubleshooting.md has %q, which is not logged", row[1])
		}
	}
}

func TestWarningsAreFoundHoweverTheyAreWritten(t *testing.T) {
	src := `package p
func f(log *slog.Logger, err error) {
	log.Warn("one", "error", err.Error())
	log.ErrorContext(ctx, "two "+name, "a", 1)
	what := "three"
	if x { what = "four" }
	log.Log(ctx, level, what, "a", 1)
	logFailure(log, "five", err)
	log.Info("six")
}
func logFailure(log *slog.Logger, msg string, err error) { log.Log(ctx, level, msg) }
`
	var got []string
	for _, l := range warnings(t, token.NewFileSet(), "p.go", src) {
		got = append(got, l.parts...)
	}
	if want := []string{"one", "two", "three", "four", "five"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
