package main

import (
	"path"
	"regexp"
	"strings"
)

// extractors are the functions that return the lines of a file, by its extension.
var extractors = map[string]func(src string) []Line{
	".conf":    func(src string) []Line { return plain(src, after("#")) },
	".css":     script,
	".go":      golang,
	".html":    html,
	".js":      script,
	".lua":     func(src string) []Line { return plain(src, after("--")) },
	".md":      markdown,
	".service": func(src string) []Line { return plain(src, whole) },
	".sh":      func(src string) []Line { return plain(src, shell) },
	".tpl":     func(src string) []Line { return plain(src, whole) },
	".yaml":    func(src string) []Line { return plain(src, whole) },
	".yml":     func(src string) []Line { return plain(src, whole) },
	"Makefile": func(src string) []Line { return plain(src, shell) },
}

// extractor returns the function for a file, or nil if the file is not checked.
func extractor(file string) func(src string) []Line {
	if path.Base(file) == "Makefile" {
		return extractors["Makefile"]
	}
	return extractors[path.Ext(file)]
}

// plain returns the lines of a source that is no document, with the prose that a function finds in each.
func plain(src string, prose func(line string) string) []Line {
	lines := make([]Line, 0, len(src)/16)
	for text := range strings.SplitSeq(src, "\n") {
		l := Line{Number: len(lines) + 1, Kind: Code, Text: text}
		if prose != nil {
			l.Prose = prose(text)
		}
		lines = append(lines, l)
	}
	return lines
}

// after returns the comment of a line that begins with a mark.
func after(mark string) func(line string) string {
	return func(line string) string {
		_, comment, _ := strings.Cut(line, mark)
		return codeSpan.ReplaceAllString(comment, "``")
	}
}

var (
	shellComment = regexp.MustCompile(`(?:^|\s)##?\s.*`)
	quoted       = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)
	action       = regexp.MustCompile(`\{\{(?:[^}]|\}[^}])*\}\}`)
	tag          = regexp.MustCompile(`<[^<>]*>`)
	spoken       = regexp.MustCompile(`\b(?:title|placeholder|alt|aria-label|data-confirm)="([^"]*)"`)
	comment      = regexp.MustCompile(`<!--(.*?)-->`)
)

// shell returns the strings and the comment of a line of a shell script or a Makefile.
func shell(line string) string {
	return strings.Join(append(quoted.FindAllString(shellComment.ReplaceAllString(line, ""), -1), shellComment.FindString(line)), " ")
}

// whole returns a line without the actions of templates and without code spans.
func whole(line string) string {
	return codeSpan.ReplaceAllString(action.ReplaceAllStringFunc(line, func(a string) string {
		if strings.Contains(a, "/*") {
			return a
		}
		return ""
	}), "``")
}

// html returns the lines of a page: its text, its comments and the attributes that a browser shows.
func html(src string) []Line {
	return plain(src, func(line string) string {
		line = action.ReplaceAllString(line, "")
		var b strings.Builder
		for _, m := range append(spoken.FindAllStringSubmatch(line, -1), comment.FindAllStringSubmatch(line, -1)...) {
			b.WriteString(m[1] + " ")
		}
		return b.String() + tag.ReplaceAllString(line, " ")
	})
}

var scriptText = regexp.MustCompile("/\\*.*?(?:\\*/|$)|(?:^|[^:])//.*|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")

// script returns the lines of a file of JavaScript or CSS, with their comments and strings.
func script(src string) []Line {
	inside := false
	return plain(src, func(line string) string {
		var b strings.Builder
		if inside {
			text, rest, ended := strings.Cut(line, "*/")
			if b.WriteString(text + " "); !ended {
				return b.String()
			}
			line = rest
		}
		inside = false
		for _, m := range scriptText.FindAllString(line, -1) {
			b.WriteString(m + " ")
			inside = strings.HasPrefix(m, "/*") && !strings.HasSuffix(m, "*/")
		}
		return b.String()
	})
}
