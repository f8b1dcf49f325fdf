package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

var (
	//go:embed words.txt
	wordList string
	//go:embed allow.txt
	allowList string
)

// Word is an expression that must not be used, and its replacement.
type Word struct {
	re           *regexp.Regexp
	instead      string
	prose, names bool // where it is searched
}

// Words are the expressions that must not be used.
type Words []Word

// parseWords reads lines of the form "expression = replacement". An expression is a regular expression of whole words. The lines [text],
// [names] and [everywhere] state where the expressions after them are searched.
func parseWords(list string) (Words, error) {
	var words Words
	prose, names := true, true
	for n, line := range strings.Split(list, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if section, ok := sections[line]; ok {
			prose, names = section[0], section[1]
			continue
		}
		expr, instead, ok := strings.Cut(line, " = ")
		if !ok {
			return nil, fmt.Errorf("words.txt:%d: %w", n+1, errList)
		}
		re, err := regexp.Compile(`(?i)\b(?:` + expr + `)\b`)
		if err != nil {
			return nil, fmt.Errorf("words.txt:%d: %w", n+1, err)
		}
		words = append(words, Word{re: re, instead: instead, prose: prose, names: names})
	}
	return words, nil
}

// sections are the values of prose and names after the line of a section.
var sections = map[string][2]bool{"[text]": {true, false}, "[names]": {false, true}, "[everywhere]": {true, true}}

// find reports the expressions in the lines.
func (ws Words) find(lines []Line) []Finding {
	var found []Finding
	for _, l := range lines {
		for _, w := range ws {
			for _, m := range w.matches(&l) {
				found = append(found, Finding{Line: l.Number, Text: fmt.Sprintf("%q: use %s", m, w.instead), word: m})
			}
		}
	}
	return found
}

// matches returns the parts of a line that must not be used.
func (w *Word) matches(l *Line) []string {
	var all []string
	if w.prose {
		all = w.re.FindAllString(l.Prose, -1)
	}
	if w.names {
		for _, name := range l.Names {
			all = append(all, w.re.FindAllString(name, -1)...)
		}
	}
	return all
}

// Allowed are the exceptions. An exception is a pattern of files and a text. In the lines of these files that contain the text, a word within
// the text is not reported, nor is another kind of finding.
type Allowed []*exception

type exception struct {
	number     int
	file, text string
	used       bool
}

// parseAllowed reads lines of the form "file: text". The file is a name, a directory with a slash at its end, or * for every file.
func parseAllowed(list string) (Allowed, error) {
	var all Allowed
	for n, line := range strings.Split(list, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		file, text, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("allow.txt:%d: %w", n+1, errList)
		}
		all = append(all, &exception{number: n + 1, file: file, text: text})
	}
	return all, nil
}

// has reports whether the finding is an exception.
func (a Allowed) has(lines []Line, f Finding) bool {
	for _, e := range a {
		if e.covers(f.File) && strings.Contains(lines[f.Line-1].Text, e.text) && strings.Contains(folded(e.text), folded(f.word)) {
			e.used = true
			return true
		}
	}
	return false
}

// covers reports whether the exception is for a file.
func (e *exception) covers(file string) bool {
	return e.file == "*" || e.file == file || strings.HasSuffix(e.file, "/") && strings.HasPrefix(file, e.file)
}

// folded returns a text without case and spaces, because a name has no spaces between its words.
func folded(text string) string { return strings.ToLower(strings.ReplaceAll(text, " ", "")) }

// unused reports exceptions that no longer apply.
func (a Allowed) unused() []Finding {
	var found []Finding
	for _, e := range a {
		if !e.used {
			found = append(found, Finding{File: "internal/prose/allow.txt", Line: e.number, Text: "the exception no longer applies"})
		}
	}
	return found
}
