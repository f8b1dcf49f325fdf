package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Kind is the kind of a line of a document.
type Kind int

// The kinds of lines.
const (
	Paragraph Kind = iota
	Item           // the first line of a list item
	Heading
	Table
	Code
	Blank
)

// Line is one line of a document.
type Line struct {
	Number int
	Kind   Kind
	Text   string   // as written
	Prose  string   // without code spans and link targets
	Names  []string // identifiers that it declares, as words
}

var (
	item     = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+(\[.\] )?`)
	codeSpan = regexp.MustCompile("`[^`]*`")
	target   = regexp.MustCompile(`\]\([^)]*\)`)
)

// markdown returns the lines of a document. In a block of Go, comments and strings are prose; other blocks are not checked.
func markdown(src string) []Line {
	var lines []Line
	texts, block := strings.Split(src, "\n"), 0
	fenced, front := false, strings.HasPrefix(src, "---\n")
	for i, text := range texts {
		l := Line{Number: i + 1, Text: text}
		trimmed := strings.TrimSpace(text)
		switch {
		case front:
			front = i == 0 || trimmed != "---"
			l.Kind = Code
		case strings.HasPrefix(trimmed, "```"):
			l.Kind = Code
			if fenced = !fenced; fenced {
				block = i + 1
			} else if strings.TrimSpace(texts[block-1]) == "```go" {
				for j, c := range golang(strings.Join(texts[block:i], "\n")) {
					lines[block+j].Prose = c.Prose
				}
			}
		case fenced:
			l.Kind = Code
		case trimmed == "":
			l.Kind = Blank
		case strings.HasPrefix(trimmed, "#"):
			l.Kind = Heading
		case strings.HasPrefix(trimmed, "|"):
			l.Kind = Table
		case item.MatchString(text):
			l.Kind = Item
		}
		if l.Kind != Code {
			l.Prose = target.ReplaceAllString(codeSpan.ReplaceAllString(text, "``"), "]")
		}
		lines = append(lines, l)
	}
	return lines
}

var (
	sentenceEnd = regexp.MustCompile("[.!?:…][)*_`\"'”\\]]*$")
	twoInOne    = regexp.MustCompile("(?:[a-z0-9)*`\"\\]]|[A-Z]{2})[.!?][)*`\"]* [A-Z`]")
	abbreviated = regexp.MustCompile(`\b(e\.g|i\.e|vs|etc|v?\d)\.[)*]* $`)
)

// sentences reports lines that break inside a sentence, and lines of a paragraph that contain more than one.
func sentences(lines []Line) []Finding {
	var found []Finding
	for i, l := range lines {
		if l.Kind != Paragraph && l.Kind != Item {
			continue
		}
		if i+1 < len(lines) && lines[i+1].Kind == Paragraph && !sentenceEnd.MatchString(strings.TrimRight(l.Prose, " ")) {
			found = append(found, Finding{Line: l.Number, Text: "the line breaks inside a sentence"})
		}
		if l.Kind != Paragraph {
			continue
		}
		for _, at := range twoInOne.FindAllStringIndex(l.Prose, -1) {
			if !abbreviated.MatchString(l.Prose[:at[1]-1]) {
				found = append(found, Finding{Line: l.Number, Text: "the line holds more than one sentence"})
				break
			}
		}
	}
	return found
}

var noSubject = regexp.MustCompile(`(?i)^#+\s+(?:(?:what|how|why|when|where|who|if)\b|.*\?$)`)

// headings reports headings that are questions or sentences.
func headings(lines []Line) []Finding {
	var found []Finding
	for _, l := range lines {
		if l.Kind == Heading && noSubject.MatchString(l.Text) {
			found = append(found, Finding{Line: l.Number, Text: "the heading names no subject"})
		}
	}
	return found
}

var (
	link       = regexp.MustCompile(`\]\(([^)\s"]+)\)`)
	notAnchor  = regexp.MustCompile(`[^a-z0-9 _-]`)
	headingRef = regexp.MustCompile(`^#+\s+`)
)

// links reports links to files and headings that do not exist.
func links(tree fs.FS, file string, lines []Line) []Finding {
	var found []Finding
	for _, l := range lines {
		if l.Kind == Code {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(l.Text, "``"), -1) {
			name, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(name, "://") || strings.HasPrefix(name, "mailto:") {
				continue
			}
			to := file
			if name != "" {
				to = path.Join(path.Dir(file), name)
			}
			if _, err := fs.Stat(tree, to); err != nil {
				found = append(found, Finding{Line: l.Number, Text: fmt.Sprintf("the link %s leads nowhere", m[1])})
			} else if section != "" && !hasHeading(tree, to, section) {
				found = append(found, Finding{Line: l.Number, Text: fmt.Sprintf("the link %s has no such heading", m[1])})
			}
		}
	}
	return found
}

// hasHeading reports whether a document has a heading with an anchor.
func hasHeading(tree fs.FS, file, anchor string) bool {
	src, err := fs.ReadFile(tree, file)
	if err != nil {
		return false
	}
	for _, l := range markdown(string(src)) {
		if l.Kind != Heading {
			continue
		}
		title := strings.ToLower(strings.TrimSpace(headingRef.ReplaceAllString(l.Text, "")))
		if strings.ReplaceAll(notAnchor.ReplaceAllString(title, ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
