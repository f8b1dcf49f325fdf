package main

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

var (
	testName = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz)[A-Z]`)
	capital  = regexp.MustCompile(`[A-Z]`)
)

// comments returns the lines of a Go file. The prose of a line consists of its strings, its comment and the words in the name of a test,
// without directives and preformatted text.
func comments(src string) []Line {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	s.Init(file, []byte(src), nil, scanner.ScanComments)
	lines := make([]Line, 0, len(src)/16)
	for text := range strings.SplitSeq(src, "\n") {
		lines = append(lines, Line{Number: len(lines) + 1, Kind: Code, Text: text})
	}
	for before := token.ILLEGAL; ; {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if before == token.FUNC && testName.MatchString(text) {
			lines[file.Line(pos)-1].Prose = capital.ReplaceAllString(text, " $0") + " "
		}
		before = tok
		if tok != token.STRING && tok != token.COMMENT || strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//\t") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if tok == token.COMMENT {
				line = codeSpan.ReplaceAllString(line, "``")
			}
			lines[file.Line(pos)-1+i].Prose += line + " "
		}
	}
}

// luaComments returns the lines of a script. The prose of a line is its comment.
func luaComments(src string) []Line {
	var lines []Line
	for text := range strings.SplitSeq(src, "\n") {
		_, comment, _ := strings.Cut(text, "--")
		lines = append(lines, Line{Number: len(lines) + 1, Kind: Code, Text: text, Prose: comment})
	}
	return lines
}
