package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// directive is what an allow begins with. What follows is the kind, a colon, and the
// reason; what follows a second // is no part of it.
const directive = "//pawl:allow"

// allow is one exception. It acts on its own line if that has code, else on the line
// below the comments that it stands among.
type allow struct {
	pos     token.Pos
	file    *token.File
	line    int
	kind    kind
	wrong   string // why it counts for nothing; empty if it counts
	silence claim  // what it has silenced; zero if nothing yet
}

// claim is one finding: the same one may be asked about again.
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
				a.kind, a.wrong = parseAllow(rest)
				as.list = append(as.list, a)
			}
		}
	}
	return as
}

func parseAllow(rest string) (k kind, wrong string) {
	rest, _, _ = strings.Cut(rest, " //")
	word, reason, _ := strings.Cut(rest, ":")
	k = kind(strings.TrimSpace(word))
	switch {
	case !slices.Contains(kinds(), k):
		return k, fmt.Sprintf("%s names nothing that can be allowed (%q); write %s <what>: <reason>, with one of %v", directive, string(k), directive, kinds())
	case strings.TrimSpace(reason) == "":
		return k, fmt.Sprintf("%s %s has no reason, and so allows nothing; say after a colon why replay does not differ here", directive, k)
	}
	return k, ""
}

// linesWithCode finds the lines on which something begins or ends that is no comment.
func linesWithCode(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := make(map[int]bool)
	file := fset.File(f.FileStart)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case nil:
		case *ast.Comment, *ast.CommentGroup:
			return false
		case *ast.File: // begins with its first comment
			return true
		default:
			lines[file.Line(n.Pos())] = true
			lines[file.Line(n.End()-1)] = true
		}
		return true
	})
	return lines
}

// take reports whether somebody has argued for the finding. An allow is used up by
// the first finding that takes it; that one may take it again.
func (as *allows) take(pos token.Pos, k kind) bool {
	want := claim{pos, k}
	file := as.fset.File(pos)
	if file == nil {
		return false
	}
	line := file.Line(pos)
	var fresh *allow
	for _, a := range as.list {
		if a.wrong != "" || a.kind != k || a.file != file || a.line != line {
			continue
		}
		if a.silence == want {
			return true
		}
		if fresh == nil && a.silence == (claim{}) {
			fresh = a
		}
	}
	if fresh == nil {
		return false
	}
	fresh.silence = want
	return true
}

// complaints are the findings about the allows themselves, once everybody has taken.
func (as *allows) complaints() []finding {
	var found []finding
	for _, a := range as.list {
		switch {
		case a.wrong != "":
			found = append(found, finding{a.pos, kindAllow, fmt.Sprintf("%s [%s]", a.wrong, kindAllow)})
		case a.silence == (claim{}):
			found = append(found, finding{a.pos, kindAllow, fmt.Sprintf("%s %s silences nothing; take it away [%s]", directive, a.kind, kindAllow)})
		}
	}
	return found
}
