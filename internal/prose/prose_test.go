package main

import (
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

func TestExceptionsApplyToTheirLineAndMustBeUsed(t *testing.T) {
	tree := fstest.MapFS{"a.md": {Data: []byte("for ever and a day\nfor ever.\n")}}
	findings, err := Check(tree, "for ever = forever", "a.md: and a day\na.md: gone\n")
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

func TestNamesOfTestsAreChecked(t *testing.T) {
	src := "package p\n\nfunc TestItIsForEver(*T) {}\n\nfunc FuzzForEver(*F) {} // for ever\n\nfunc BenchmarkForever(*B) {}\n\nfunc isForEver() { TestItIsForEver(nil) }\n"
	findings, err := Check(fstest.MapFS{"p/p_test.go": {Data: []byte(src)}}, "for ever = forever", "")
	if err != nil || len(findings) != 2 || findings[0].Line != 3 || findings[1].Line != 5 {
		t.Error(findings, err)
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
