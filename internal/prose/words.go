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
	re      *regexp.Regexp
	instead string
}

// Words are the expressions that must not be used.
type Words []Word

// parseWords reads lines of the form "expression = replacement". An expression is a regular expression of whole words.
func parseWords(list string) (Words, error) {
	var words Words
	for n, line := range strings.Split(list, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
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
		words = append(words, Word{re: re, instead: instead})
	}
	return words, nil
}

// find reports the expressions in the lines.
func (ws Words) find(lines []Line) []Finding {
	var found []Finding
	for _, l := range lines {
		for _, w := range ws {
			if m := w.re.FindString(l.Prose); m != "" {
				found = append(found, Finding{Line: l.Number, Text: fmt.Sprintf("%q: use %s", m, w.instead)})
			}
		}
	}
	return found
}

// Allowed are the exceptions. An exception is a file and a text; findings in lines of the file that contain the text are not reported.
type Allowed []*exception

type exception struct {
	number     int
	file, text string
	used       bool
}

// parseAllowed reads lines of the form "file: text".
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
		if e.file == f.File && strings.Contains(lines[f.Line-1].Text, e.text) {
			e.used = true
			return true
		}
	}
	return false
}

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
