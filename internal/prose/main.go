// Command prose checks the text of the repository. It reports Markdown lines that break inside a sentence or contain two sentences,
// headings that name no subject, words that docs/glossary.md has replaced, and broken links. Words are also checked in comments, strings and
// declared identifiers of Go files, in blocks of Go in Markdown, in pages, in comments and strings of JavaScript, CSS, shell scripts and
// Makefiles, in comments of Lua scripts, in YAML, and in the names of files.
//
//	go run ./internal/prose .
//
// The words and their replacements are in words.txt, the exceptions in allow.txt. An exception that no longer applies is also
// reported. Exit status: 0 nothing found, 1 something found, 2 the check could not run.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Finding is one line to correct.
type Finding struct {
	File string // relative to the root, with slashes
	Line int
	Text string
	word string // the word that must not be used, if that is the finding
}

// String formats the finding on one line.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prose DIRECTORY")
		os.Exit(2)
	}
	findings, err := Check(os.DirFS(os.Args[1]), wordList, allowList)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Fprintln(os.Stdout, f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// Check returns the lines of the tree that are to be corrected.
func Check(tree fs.FS, wordList, allowList string) ([]Finding, error) {
	banned, err := parseWords(wordList)
	if err != nil {
		return nil, err
	}
	allowed, err := parseAllowed(allowList)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	err = fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(file):
			return fs.SkipDir
		case d.IsDir() || extractor(file) == nil:
			return nil
		}
		src, err := fs.ReadFile(tree, file)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		lines := extractor(file)(string(src))
		lines[0].Names = append(lines[0].Names, words(strings.TrimSuffix(path.Base(file), path.Ext(file))))
		for _, f := range slices.Concat(sentences(lines), headings(lines), banned.find(lines), links(tree, file, lines)) {
			if f.File = file; !allowed.has(lines, f) {
				findings = append(findings, f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return append(findings, allowed.unused()...), nil
}

// skipped reports whether a directory contains no text of the project.
func skipped(dir string) bool {
	name := path.Base(dir)
	return name == "testdata" || name == "bin" || name != "." && name != ".github" && strings.HasPrefix(name, ".")
}

var errList = errors.New("bad line in a list")
