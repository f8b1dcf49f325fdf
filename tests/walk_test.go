package tests

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxWalkFiles = 12
	maxWalkBack  = 3
	maxGlance    = 10 // maximum lines of a function that is read where it is called, if it calls only such functions
)

// A turn can be followed from the message TurnDone to the replies of its commit in at most twelve files of the core, with at
// most three returns to a file that was left before. The walk is depth first, in the order of the calls. It ends where the
// turn ends: where it is given up, or where the instance takes its next step.
func TestTurnIsFollowedThroughFewFiles(t *testing.T) {
	w := readCore(t)
	for _, end := range []string{
		"Owner.advance", "Owner.resume", "schedule.wake", "Owner.unload", "Owner.fail", "Owner.storeFailed", "removals.stall", "turns.endByName",
		"inboxes.unreadable", "turns.waitToObserve", "leases.reconcileLeases", "leases.doubt",
	} {
		w.ends[w.named(t, end)] = true
	}
	w.follow(w.named(t, "turns.turned"))
	w.follow(w.named(t, "commits.commitAnswered"))
	back := 0
	for i, file := range w.files {
		if slices.Contains(w.files[:i], file) {
			back++
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(w.files)))
	t.Logf("%d functions, %d files, %d steps back: %s", w.functions, len(distinct), back, strings.Join(w.files, " "))
	if len(distinct) > maxWalkFiles || back > maxWalkBack || w.functions < 40 {
		t.Errorf("%d files and %d steps back; %d and %d are allowed", len(distinct), back, maxWalkFiles, maxWalkBack)
	}
}

// walk reads the functions of a package.
type walk struct {
	fset      *token.FileSet
	uses      map[*ast.Ident]types.Object
	decls     map[types.Object]*ast.FuncDecl
	ends      map[types.Object]bool // functions that are not followed
	seen      map[types.Object]bool
	files     []string // in the order in which they are entered
	functions int
}

func readCore(t *testing.T) *walk {
	t.Helper()
	dir := filepath.Join("..", "internal", "core")
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles", ".")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var pkg struct {
		ImportPath, Export string
		GoFiles            []string
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); exports[pkg.ImportPath] = pkg.Export { // the last one is the core
		if err := dec.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
	}
	w := &walk{
		fset: token.NewFileSet(), uses: map[*ast.Ident]types.Object{}, decls: map[types.Object]*ast.FuncDecl{},
		ends: map[types.Object]bool{}, seen: map[types.Object]bool{},
	}
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(w.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: w.uses, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(w.fset, "gc", lookup)}
	if _, err := conf.Check(pkg.ImportPath, w.fset, files, info); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				w.decls[info.Defs[f.Name]] = f
			}
		}
	}
	return w
}

// named finds a method by its type and name.
func (w *walk) named(t *testing.T, name string) types.Object {
	t.Helper()
	for f, decl := range w.decls {
		if decl.Recv != nil && receiver(decl.Recv.List[0].Type)+"."+f.Name() == name {
			return f
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// calls returns the functions of the package that a function mentions, in order.
func (w *walk) calls(f types.Object) (out []types.Object) {
	ast.Inspect(w.decls[f].Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && w.decls[w.uses[id]] != nil {
			out = append(out, w.uses[id])
		}
		return true
	})
	return out
}

func (w *walk) follow(f types.Object) {
	if w.seen[f] || w.ends[f] || w.glance(f, nil) {
		return
	}
	w.seen[f] = true
	w.functions++
	if file := filepath.Base(w.fset.Position(w.decls[f].Pos()).Filename); len(w.files) == 0 || w.files[len(w.files)-1] != file {
		w.files = append(w.files, file)
	}
	for _, callee := range w.calls(f) {
		w.follow(callee)
	}
}

// glance reports whether a function is read where it is called.
func (w *walk) glance(f types.Object, within []types.Object) bool {
	body := w.decls[f].Body
	if w.fset.Position(body.End()).Line-w.fset.Position(body.Pos()).Line > maxGlance || slices.Contains(within, f) {
		return false
	}
	for _, callee := range w.calls(f) {
		if !w.ends[callee] && !w.glance(callee, append(within, f)) {
			return false
		}
	}
	return true
}
