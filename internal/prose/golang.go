package main

import (
	_ "embed"
	"go/scanner"
	"go/token"
	"path"
	"slices"
	"strings"
)

// unrevised lists the directories whose comments are not checked yet.
//
//go:embed unrevised.txt
var unrevised string

// revised reports whether the comments of a Go file are checked.
func revised(file string) bool {
	return !strings.HasSuffix(file, "_test.go") && !slices.ContainsFunc(strings.Fields(unrevised), func(dir string) bool {
		return path.Dir(file) == dir || strings.HasPrefix(file, dir+"/")
	})
}

// comments returns the lines of a Go file. The prose of a line is its strings and its comment, without directives and verbatim text.
func comments(src string) []Line {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	s.Init(file, []byte(src), nil, scanner.ScanComments)
	lines := make([]Line, 0, len(src)/16)
	for text := range strings.SplitSeq(src, "\n") {
		lines = append(lines, Line{Number: len(lines) + 1, Kind: Code, Text: text})
	}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
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

// luaComments returns the lines of a script, whose prose is its comments.
func luaComments(src string) []Line {
	var lines []Line
	for text := range strings.SplitSeq(src, "\n") {
		_, comment, _ := strings.Cut(text, "--")
		lines = append(lines, Line{Number: len(lines) + 1, Kind: Code, Text: text, Prose: comment})
	}
	return lines
}
