package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of the summary of one package, so that it fits into one payload whatever the package contains.
const (
	MaxFileBytes   = 16 << 20 // the lines of a larger file are counted, but it is reported and not parsed
	maxProblems    = 500      // problems of one package that are listed by name; the rest are only counted
	maxHotspots    = 5        // hotspots listed for one package
	maxHotspotName = 200      // bytes
)

// Summary is the result of Inspect for one package.
type Summary struct {
	Package    string    `json:"package"`
	Files      int       `json:"files"`      // .go files, including those that could not be parsed
	Lines      int       `json:"lines"`      // newlines, plus one for a last line without a newline
	Exported   int       `json:"exported"`   // exported package-level names and methods, except in _test.go files
	Functions  int       `json:"functions"`  // functions and methods with a body
	Complexity int       `json:"complexity"` // sum of the complexity of all functions
	Marks      int       `json:"marks"`      // TODO and FIXME in comments
	Hotspots   []Hotspot `json:"hotspots,omitempty"`
	Problems   []Problem `json:"problems,omitempty"` // files that could not be read or parsed
	Unnamed    int       `json:"unnamed,omitempty"`  // number of further files with problems
}

// Hotspot is a function and its cyclomatic complexity.
type Hotspot struct {
	Function   string `json:"function"` // "Name", or "Type.Name" for a method
	File       string `json:"file"`     // slash-separated, relative to the audited directory
	Line       int    `json:"line"`
	Complexity int    `json:"complexity"`
}

// Inspect reads the .go files of the directory pkg (as named in a Page) below dir. It returns no error: files that cannot be read are
// named in the summary.
func Inspect(dir, pkg string) Summary {
	s := Summary{Package: pkg}
	full := filepath.Join(dir, filepath.FromSlash(pkg))
	entries, err := os.ReadDir(full)
	if err != nil {
		s.problem(pkg, plain(err))
	}
	for _, e := range entries {
		if isGoFile(e) {
			s.Files++
			s.file(path.Join(pkg, e.Name()), filepath.Join(full, e.Name()))
		}
	}
	return s
}

// file counts one file. rel is its name in the report.
func (s *Summary) file(rel, full string) {
	src, lines, err := read(full)
	s.Lines += lines
	if err != nil {
		s.problem(rel, err)
		return
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, full, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		s.problem(rel, syntax(err))
	}
	if f == nil {
		return
	}
	for _, c := range f.Comments {
		s.Marks += marks(c)
	}
	for _, d := range f.Decls {
		if !strings.HasSuffix(rel, "_test.go") {
			s.Exported += exported(d)
		}
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			s.function(fset, rel, fn)
		}
	}
}

func (s *Summary) function(fset *token.FileSet, rel string, fn *ast.FuncDecl) {
	c := complexity(fn)
	s.Functions++
	s.Complexity += c
	h := Hotspot{Function: name(fn), File: rel, Line: fset.Position(fn.Pos()).Line, Complexity: c}
	s.Hotspots = worst(append(s.Hotspots, h), maxHotspots)
}

func (s *Summary) problem(rel string, err error) {
	if len(s.Problems) == maxProblems {
		s.Unnamed++
		return
	}
	s.Problems = append(s.Problems, Problem{Path: rel, Text: clip(err.Error())})
}

// read returns the content of a file and its number of lines. With an error, it returns the number of lines that it could count.
func read(full string) (src []byte, lines int, err error) {
	info, err := os.Stat(full)
	if err != nil {
		return nil, 0, plain(err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would block until there is a writer
		return nil, 0, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := os.Open(full)
	if err != nil {
		return nil, 0, plain(err)
	}
	defer func() { _ = f.Close() }() // read only, so nothing can be lost
	src, err = io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, 0, plain(err)
	}
	if len(src) <= MaxFileBytes {
		return src, countLines(bytes.NewReader(src)), nil
	}
	return nil, countLines(io.MultiReader(bytes.NewReader(src), f)),
		fmt.Errorf("too large to parse: %d bytes, at most %d", info.Size(), MaxFileBytes)
}

func countLines(r io.Reader) int {
	n, last := 0, byte('\n')
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		b, err := br.ReadSlice('\n')
		if len(b) > 0 {
			last = b[len(b)-1]
			if last == '\n' {
				n++
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if last != '\n' {
		n++
	}
	return n
}

// syntax shortens a parser's list of errors to the first, with its line.
func syntax(err error) error {
	list, ok := errors.AsType[scanner.ErrorList](err)
	if !ok || len(list) == 0 {
		return err
	}
	text := fmt.Sprintf("line %d: %s", list[0].Pos.Line, list[0].Msg)
	if more := len(list) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return errors.New(text)
}

// marks counts the words TODO and FIXME.
func marks(c *ast.CommentGroup) int {
	n := 0
	for _, line := range c.List {
		n += countWords(line.Text)
	}
	return n
}

func countWords(text string) int {
	if !strings.Contains(text, "TODO") && !strings.Contains(text, "FIXME") {
		return 0
	}
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	n := 0
	for _, w := range words {
		if w == "TODO" || w == "FIXME" {
			n++
		}
	}
	return n
}

// worst sorts by descending complexity, then by location, and keeps the first n.
func worst(h []Hotspot, n int) []Hotspot {
	slices.SortFunc(h, func(a, b Hotspot) int {
		if a.Complexity != b.Complexity {
			return b.Complexity - a.Complexity
		}
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return h[:min(len(h), n)]
}
