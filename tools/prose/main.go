// Command prose checks the text of the repository: Markdown lines that break inside a sentence or hold two of them,
// words that docs/glossary.md has replaced, and links that lead nowhere.
//
//	go -C tools run ./prose ..
//
// The words and their replacements are in words.txt, the exceptions in allow.txt. An exception that no longer applies is
// reported, too. Exit status: 0 nothing found, 1 something found, 2 the check could not run.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Finding is one line to correct.
type Finding struct {
	File string // relative to the root, with slashes
	Line int
	Text string
}

// extractors return the text of a file by its extension. Comments and strings of Go would be one more.
var extractors = map[string]func(src string) []Line{
	".md": markdown,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prose DIRECTORY")
		os.Exit(2)
	}
	findings, err := Check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Printf("%s:%d: %s\n", f.File, f.Line, f.Text)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// Check returns what is to be corrected under root, by file and line.
func Check(root string) ([]Finding, error) {
	words, err := parseWords(wordList)
	if err != nil {
		return nil, err
	}
	allowed, err := parseAllowed(allowList)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && name != ".github") {
				return filepath.SkipDir
			}
			return nil
		}
		extract := extractors[filepath.Ext(path)]
		if extract == nil {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		lines := extract(string(src))
		file := filepath.ToSlash(rel)
		for _, f := range concat(sentences(lines), words.find(lines), links(root, file, lines)) {
			f.File = file
			if !allowed.has(file, lines, f) {
				findings = append(findings, f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return append(findings, allowed.unused()...), nil
}

func concat(all ...[]Finding) []Finding {
	var sum []Finding
	for _, fs := range all {
		sum = append(sum, fs...)
	}
	return sum
}

var errList = errors.New("bad line in a list")
