package audit

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// tree writes files, by slash-separated path, to a new directory. A path that ends with a slash is an empty directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		dir := filepath.Dir(full)
		if name[len(name)-1] == '/' {
			dir = full
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == full {
			continue
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// sample is a tree with one of everything.
func sample(t *testing.T) string {
	t.Helper()
	root := tree(t, map[string]string{
		"main.go":                 "package main\n\nfunc main() {}\n",
		"alpha/alpha.go":          alphaSource,
		"alpha/alpha_test.go":     "package alpha\n\n// TODO: more.\nfunc TestA() {}\n",
		"alpha/_skipped.go":       "package alpha\n",
		"alpha/testdata/x.go":     "package x\n",
		"alpha/vendor/v/v.go":     "package v\n",
		"alpha-beta/b.go":         "package b",
		"alpha/deep/d.go":         "package d\n",
		"broken/b.go":             "package broken\n\nfunc Half() {\n\tif a && b {\n\t}\n}\n\nfunc (\n",
		"broken/not-go.go":        "\x00\x01 this is no Go",
		"broken/empty.go":         "",
		".hidden/h.go":            "package h\n",
		"_gen/g.go":               "package g\n",
		"docs/readme.txt":         "nothing here\n",
		"empty/":                  "",
		"dir.go/inside.go":        "package inside\n",
		"zeta/with space/file.go": "package spaced\n",
	})
	link := func(old, name string) {
		if err := os.Symlink(old, filepath.Join(root, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	link("..", "alpha/up")                          // a loop for a reader that follows links
	link("nowhere.go", "broken/dangling.go")        // reported, not fatal
	link("self.go", "broken/self.go")               // a link to itself
	link("../alpha/alpha.go", "zeta/linked.go")     // a file like any other
	link(filepath.Join(root, "alpha"), "zeta/link") // not followed
	return root
}

const alphaSource = `// Package alpha has one of everything. TODO: less. TODOS do not count.
package alpha

import "fmt"

// FIXME(alpha): exported names are A, B, T, G, T.M and F.
const (
	A, b = 1, 2
)

var B = "TODO in a string does not count"

type T struct{}
type G[K any] struct{}
type private int

func (*T) M(x int) bool { return x > 0 && x < 9 || x == 20 }

func (g *G[K]) unexported() {}

func (private) Exported() {}

func F(ch chan int, n int) {
	for i := range n {
		switch {
		case i == 1, i == 2:
			fmt.Println()
		default:
		}
	}
	select {
	case <-ch:
	default:
	}
	func() {
		if n > 0 {
			for {
			}
		}
	}()
}
`

// panicOn returns an inspection that panics for one package.
func panicOn(pkg string) func(context.Context, InspectRequest) (Summary, error) {
	return func(ctx context.Context, in InspectRequest) (Summary, error) {
		if in.Package == pkg {
			panic("what a package")
		}
		return inspectPackage(ctx, in)
	}
}
