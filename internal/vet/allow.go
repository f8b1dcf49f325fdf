package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// directive begins an allow. The kind, a colon and the reason follow; a second // ends the reason.
const directive = "//pawl:allow"

// allow is one exception. It applies to its own line if that contains code, and otherwise to the line below its group of comments.
type allow struct {
	pos     token.Pos
	file    *token.File
	line    int
	kind    kind
	invalid string // the reason why it is ignored; empty if it is valid
	used    claim  // the finding that it has suppressed; zero if none
}

// claim identifies a finding, which may be checked several times.
type claim struct {
	pos  token.Pos
	kind kind
}

// allows are the exceptions of a package.
type allows struct {
	list []*allow
	fset *token.FileSet
}

func readAllows(fset *token.FileSet, files []*ast.File) *allows {
	as := &allows{fset: fset}
	for _, f := range files {
		var code map[int]bool
		for _, group := range f.Comments {
			for _, c := range group.List {
				rest, ok := strings.CutPrefix(c.Text, directive)
				if !ok {
					continue
				}
				if code == nil {
					code = linesWithCode(fset, f)
				}
				file := fset.File(c.Pos())
				a := &allow{pos: c.Pos(), file: file, line: file.Line(c.Pos())}
				if !code[a.line] {
					a.line = file.Line(group.End()) + 1
				}
				a.kind, a.invalid = parseAllow(rest)
				as.list = append(as.list, a)
			}
		}
	}
	return as
}

func parseAllow(rest string) (k kind, invalid string) {
	rest, _, _ = strings.Cut(rest, " //")
	word, reason, _ := strings.Cut(rest, ":")
	k = kind(strings.TrimSpace(word))
	switch {
	case !slices.Contains(kinds(), k):
		return k, fmt.Sprintf("%s has an unknown category (%q); write %s <category>: <reason>, with one of %v", directive, string(k), directive, kinds())
	case strings.TrimSpace(reason) == "":
		return k, fmt.Sprintf("%s %s has no reason and is ignored; state after a colon why replay does not differ here", directive, k)
	}
	return k, ""
}

// linesWithCode returns the lines on which code begins or ends.
func linesWithCode(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := make(map[int]bool)
	file := fset.File(f.FileStart)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case nil:
		case *ast.Comment, *ast.CommentGroup:
			return false
		case *ast.File: // its range includes the comments
			return true
		default:
			lines[file.Line(n.Pos())] = true
			lines[file.Line(n.End()-1)] = true
		}
		return true
	})
	return lines
}

// take reports whether an allow suppresses the finding. An allow suppresses one finding, which may be checked several times.
func (as *allows) take(pos token.Pos, k kind) bool {
	want := claim{pos, k}
	file := as.fset.File(pos)
	if file == nil {
		return false
	}
	line := file.Line(pos)
	var fresh *allow
	for _, a := range as.list {
		if a.invalid != "" || a.kind != k || a.file != file || a.line != line {
			continue
		}
		if a.used == want {
			return true
		}
		if fresh == nil && a.used == (claim{}) {
			fresh = a
		}
	}
	if fresh == nil {
		return false
	}
	fresh.used = want
	return true
}

// findings returns the findings about the allows themselves, after all others have been checked.
func (as *allows) findings() []finding {
	var found []finding
	for _, a := range as.list {
		switch {
		case a.invalid != "":
			found = append(found, finding{a.pos, kindAllow, fmt.Sprintf("%s [%s]", a.invalid, kindAllow)})
		case a.used == (claim{}):
			found = append(found, finding{a.pos, kindAllow, fmt.Sprintf("%s %s suppresses nothing; remove it [%s]", directive, a.kind, kindAllow)})
		}
	}
	return found
}
