package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMistakesAreReported(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"line breaks inside a sentence":              {"A line that\nbreaks.\n", "1: the line breaks inside a sentence"},
		"list item breaks inside a sentence":         {"* an item that\n  breaks.\n", "1: the line breaks inside a sentence"},
		"two sentences in a line":                    {"One is here. Two is here, too.\n", "1: the line holds more than one sentence"},
		"two sentences, the first with an acronym":   {"It is JSON. It is here, too.\n", "1: the line holds more than one sentence"},
		"a word that is not used":                    {"It can not be.\n", `1: "can not": use cannot`},
		"in a heading":                               {"# For ever\n", `1: "For ever": use forever`},
		"in a table":                                 {"| a |\n|---|\n| for ever |\n", `3: "for ever": use forever`},
		"a link to a file that does not exist":       {"See [it](none.md).\n", "1: the link none.md leads nowhere"},
		"a link to a heading that does not exist":    {"See [it](#none).\n", "1: the link #none has no such heading"},
		"one sentence a line":                        {"One.\nTwo: two.\n**Three.**\nFour `x.\n`\n", ""},
		"a heading that is a question":               {"## What is kept\n", "1: the heading names no subject"},
		"front matter is not checked":                {"---\nname: for ever\nabout: it\n---\nText.\n", ""},
		"code is not checked":                        {"```\nfor ever\nand ever\n```\nAnd `for ever`.\n", ""},
		"a comment in a block of Go":                 {"```go\nforever := 1 // for ever\n```\n", `2: "for ever": use forever`},
		"names in a block of Go are not checked":     {"```go\nfor ever := range 2 {\n}\n```\n", ""},
		"list items may hold several sentences":      {"* One. Two.\n* three\n", ""},
		"a version is no end of a sentence":          {"See 2. Later, e.g. Redis.\n", ""},
		"a link to a heading":                        {"# A `b` c\n\nSee [it](#a-b-c), [here](page.md#a-b-c) and [there](https://example.org/x.md).\n", ""},
		"a word within another, and a link's target": {"Forevermore [x](page.md).\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := Check(fstest.MapFS{"page.md": {Data: []byte(test.text)}, "testdata/x.md": {Data: []byte("for ever\n")}},
				"# list\ncan not = cannot\nfor ever = forever\n", "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				got = append(got, strings.TrimPrefix(f.String(), "page.md:"))
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestExceptionsApplyToTheirWordAndTheirFiles(t *testing.T) {
	tree := fstest.MapFS{"d/a.md": {Data: []byte("for ever and can not\n")}, "b.md": {Data: []byte("for ever\n")}}
	for allow, want := range map[string]int{"d/: for ever": 2, "*: for ever": 1, "*: ever": 4, "*: for ever and can not": 1, "b.md: for ever": 2} {
		findings, err := Check(tree, "for ever = forever\ncan not = cannot", allow)
		if err != nil || len(findings) != want {
			t.Error(allow, findings, err)
		}
	}
}

func TestExceptionsApplyToTheirLineAndMustBeUsed(t *testing.T) {
	tree := fstest.MapFS{"a.md": {Data: []byte("for ever and a day\nfor ever.\n")}}
	findings, err := Check(tree, "for ever = forever", "a.md: for ever and a day\na.md: gone\n")
	if err != nil || len(findings) != 2 || findings[0].Line != 2 || findings[1].File != "internal/prose/allow.txt" || findings[1].Line != 2 {
		t.Error(findings, err)
	}
}

func TestCommentsAndStringsOfGoFilesAreChecked(t *testing.T) {
	src := []byte("// Package p is for ever.\n//\n//\tfor ever\npackage p\n\nconst text = \"for ever\" // `for ever`\n\nvar _ = text // for ever\n")
	findings, err := Check(fstest.MapFS{"p/p.go": {Data: src}, "internal/vet/testdata/p.go": {Data: src}}, "for ever = forever", "")
	if err != nil || len(findings) != 3 || findings[0].Line != 1 || findings[1].Line != 6 || findings[2].Line != 8 {
		t.Error(findings, err)
	}
}

func TestDeclaredIdentifiersAreChecked(t *testing.T) {
	src := "package p\n\nfunc TestItIsForEver(*T) {}\n\ntype T struct{ forEver, forever int }\n\n" +
		"func f(x T) {\n\tfor _, isForEver := range x.forEver {\n\t\tforEverMore, HTTPForEver := 1, isForEver\n\t}\n}\n"
	findings, err := Check(fstest.MapFS{"p/p_test.go": {Data: []byte(src)}, "p/for_ever.go": {Data: []byte("package p\n")}}, "for ever = forever", "")
	var lines []string
	for _, f := range findings {
		lines = append(lines, fmt.Sprint(f.File, ":", f.Line))
	}
	want := "p/for_ever.go:1 p/p_test.go:3 p/p_test.go:5 p/p_test.go:8 p/p_test.go:9 p/p_test.go:9"
	if got := strings.Join(lines, " "); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestSectionsSeparateTextFromNames(t *testing.T) {
	src := "package p\n\nvar letter = 1 // a letter or else\n\nvar orElse = 2\n"
	findings, err := Check(fstest.MapFS{"p.go": {Data: []byte(src)}}, "[names]\nletter = message\n[text]\nor else = otherwise\n", "")
	if err != nil || len(findings) != 2 || findings[0].word != "letter" || findings[1].word != "or else" || findings[1].Line != 3 {
		t.Error(findings, err)
	}
}

func TestOtherFilesAreChecked(t *testing.T) {
	for file, test := range map[string]struct {
		text string
		want int // findings
	}{
		"page.html":    {"<p class=\"for ever\" title=\"for ever\">{{/* for ever */}}for ever</p>\n<!-- for ever -->\n", 3},
		"page.js":      {"let forEver = \"for ever\" // for ever\n/* a\nfor ever\n*/ x = for ever\n", 3},
		"page.css":     {".for-ever { color: red } /* for ever */\n", 1},
		"values.yaml":  {"for: ever\nsummary: it is for ever # for ever\n", 2},
		"ci.yml":       {"# `for ever`\nname: for ever\n", 1},
		"helpers.tpl":  {"{{/* for ever */}}\n{{ for ever }}\n", 1},
		"a.sh":         {"for ever in 1; do echo \"for ever\"; done # for ever\n", 2},
		"Makefile":     {"x: ## for ever\n\techo for ever\n", 1},
		"nats.conf":    {"for: ever # for ever\n", 1},
		"unit.service": {"Description=for ever\n", 1},
		"data.txt":     {"for ever\n", 0},
	} {
		findings, err := Check(fstest.MapFS{file: {Data: []byte(test.text)}}, "for ever = forever", "")
		if err != nil || len(findings) != test.want {
			t.Errorf("%s: %v, %v, want %d", file, findings, err, test.want)
		}
	}
}

func TestCommentsOfScriptsAreChecked(t *testing.T) {
	src := []byte("-- a script\nlocal forever = 'for ever' -- for ever\n")
	findings, err := Check(fstest.MapFS{"p/p.lua": {Data: src}, "p/q.lua": {Data: src[:len(src)-12]}}, "for ever = forever", "")
	if err != nil || len(findings) != 1 || findings[0].File != "p/p.lua" || findings[0].Line != 2 {
		t.Error(findings, err)
	}
}

func TestListsAreChecked(t *testing.T) {
	for name, lists := range map[string][2]string{"words": {"for ever", ""}, "expression": {"( = x", ""}, "exceptions": {"", "a.md"}} {
		if _, err := Check(fstest.MapFS{}, lists[0], lists[1]); err == nil {
			t.Error(name)
		}
	}
}
