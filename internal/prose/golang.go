package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
	"unicode"
)

// golang returns the lines of a Go file. The prose of a line consists of its strings and its comment, without directives and preformatted
// text; its names are the identifiers that it declares.
func golang(src string) []Line {
	lines := tokens(src)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", src, parser.SkipObjectResolution)
	if err != nil {
		return lines // a block of a document may be no file; the compiler reports the others
	}
	declared(file, func(id *ast.Ident) {
		l := &lines[files.Position(id.Pos()).Line-1]
		l.Names = append(l.Names, words(id.Name))
	})
	return lines
}

// tokens returns the lines of a source with the prose of their comments and strings.
func tokens(src string) []Line {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	s.Init(file, []byte(src), nil, scanner.ScanComments)
	lines := plain(src, nil)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING && tok != token.COMMENT || strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//nolint:") || strings.HasPrefix(text, "//\t") {
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

// declared calls add with each identifier that a file declares.
func declared(file *ast.File, add func(id *ast.Ident)) {
	define := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				add(id)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ImportSpec:
			if n.Name != nil {
				add(n.Name)
			}
		case *ast.LabeledStmt:
			add(n.Label)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				define(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				define(n.Key, n.Value)
			}
		}
		return true
	})
}

// words splits an identifier or a file name into its words.
func words(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			b.WriteByte(' ')
			continue
		}
		first := unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1]) ||
			unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if first {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
