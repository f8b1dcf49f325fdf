package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of one page of a listing. A page ends at the bound that is reached first.
const (
	MaxPageEntries = 4_000
	maxPageBytes   = 256 << 10 // half of the maximum payload
	maxProblemText = 300
)

// Problem names a file or directory that could not be read or parsed.
type Problem struct {
	Path string `json:"path"` // slash-separated, relative to the audited directory; "." is the directory itself
	Text string `json:"text"`
}

// Page is a part of a listing, in ascending order of path, component by component.
type Page struct {
	Packages []string  `json:"packages,omitempty"` // slash-separated, relative; "." is the directory itself
	Problems []Problem `json:"problems,omitempty"` // directories that could not be read
	Next     string    `json:"next,omitempty"`     // where the next page begins, for ListPage; empty after the last page
}

// List names every package below dir by reading all pages of ListPage. A directory without packages is not an error here.
func List(dir string) (Page, error) {
	var all Page
	for {
		p, err := ListPage(dir, all.Next, MaxPageEntries)
		if err != nil {
			return Page{}, err
		}
		all.Packages = append(all.Packages, p.Packages...)
		all.Problems = append(all.Problems, p.Problems...)
		all.Next = p.Next
		if p.Next == "" {
			return all, nil
		}
	}
}

// ListPage names the packages below dir that follow the place where an earlier page ended (empty means from the beginning), at most limit
// of them and at most MaxPageEntries. It keeps no state between calls, so any worker can read the next page. A tree that changes in
// between yields no package twice.
//
// It fails with ErrNoDirectory if dir itself cannot be read. Directories below dir that cannot be read are listed in Problems.
func ListPage(dir, after string, limit int) (Page, error) {
	if limit <= 0 || limit > MaxPageEntries {
		limit = MaxPageEntries
	}
	root, err := filepath.EvalSymlinks(dir)
	if err == nil {
		_, err = os.ReadDir(root)
	}
	if err != nil {
		return Page{}, fmt.Errorf("%w: %s: %w", ErrNoDirectory, dir, plain(err))
	}
	l := lister{root: root, limit: limit}
	l.walk(".", resume(after))
	return l.page, nil
}

// resume splits the path at which the last page ended. A nil slice means the beginning; an empty one, that the directory itself was the
// last entry.
func resume(after string) []string {
	switch after {
	case "":
		return nil
	case ".":
		return []string{}
	}
	return strings.Split(after, "/")
}

type lister struct {
	root  string
	limit int
	page  Page
	bytes int
}

// walk visits rel and its subdirectories in the order of their names, and reports whether to continue. rest is the remaining path from rel
// to the directory at which to resume, or nil if that is not rel or below it.
func (l *lister) walk(rel string, rest []string) bool {
	entries, err := os.ReadDir(filepath.Join(l.root, filepath.FromSlash(rel)))
	if err != nil && rest == nil && !l.add(rel, plain(err)) {
		return false
	}
	if rest == nil && slices.ContainsFunc(entries, isGoFile) && !l.add(rel, nil) {
		return false
	}
	for _, e := range entries {
		if !e.IsDir() || ignored(e.Name()) {
			continue
		}
		var below []string
		if len(rest) > 0 {
			if e.Name() < rest[0] {
				continue
			}
			if e.Name() == rest[0] {
				below = rest[1:]
			}
		}
		if !l.walk(path.Join(rel, e.Name()), below) {
			return false
		}
	}
	return true
}

// add appends a package, or with an error a problem, and reports whether the page has room for more.
func (l *lister) add(rel string, err error) bool {
	if err != nil {
		l.page.Problems = append(l.page.Problems, Problem{Path: rel, Text: clip(err.Error())})
		l.bytes += maxProblemText
	} else {
		l.page.Packages = append(l.page.Packages, rel)
	}
	l.bytes += len(rel) + 8
	if len(l.page.Packages)+len(l.page.Problems) < l.limit && l.bytes < maxPageBytes {
		return true
	}
	l.page.Next = rel
	return false
}

// ignored reports whether a directory of that name holds third-party code or test data. Generators, such as those below _asm, are counted.
func ignored(name string) bool { return name == "testdata" || name == "vendor" }

// isGoFile accepts everything except directories. Inspect reports entries that are not files, such as broken links and sockets.
func isGoFile(e fs.DirEntry) bool {
	return !e.IsDir() && strings.HasSuffix(e.Name(), ".go")
}

// plain strips the operation and the path of a file error: the report names the path itself.
func plain(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func clip(s string) string {
	if len(s) <= maxProblemText {
		return s
	}
	return strings.ToValidUTF8(s[:maxProblemText-3], "") + "..."
}
