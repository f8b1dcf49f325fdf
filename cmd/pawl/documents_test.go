package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	headerOf  = regexp.MustCompile(`Header: \[\]string\{([^}]*)\}`)
	columnOf  = regexp.MustCompile(`"([A-Z][A-Z ()]*)"`)
	headLine  = regexp.MustCompile(`^ *[A-Z][A-Z()]*( [A-Z()]+)*( {2,}[A-Z][A-Z()]*( [A-Z()]+)*)+$`)
	fencedAny = regexp.MustCompile("(?s)\n```[a-z]*\n(.*?)\n```")
)

// The columns of a table in a document must be columns that a command writes.
func TestTablesInDocumentsHaveTheColumnsOfTheCommands(t *testing.T) {
	var columns []string
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range headerOf.FindAllStringSubmatch(string(src), -1) {
			for _, column := range columnOf.FindAllStringSubmatch(header[1], -1) {
				columns = append(columns, column[1])
			}
		}
	}
	tables := 0
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		for _, block := range fencedAny.FindAllStringSubmatch(string(page), -1) {
			for line := range strings.Lines(block[1]) {
				line = strings.TrimRight(line, "\n")
				if !headLine.MatchString(line) {
					continue
				}
				tables++
				for _, column := range regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1) {
					if !slices.Contains(columns, column) {
						t.Errorf("%s: no command writes a column %s: %s", path, column, line)
					}
				}
			}
		}
		return err
	})
	if err != nil || tables < 7 {
		t.Errorf("%d tables, %v", tables, err)
	}
}
