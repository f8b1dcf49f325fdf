package examples

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/doctest"
)

const guide = "../docs/guide"

func TestGuideIndexHasEveryPage(t *testing.T) {
	index := doctest.Read(t, filepath.Join(guide, "README.md"))
	pages, err := filepath.Glob(filepath.Join(guide, "*.md"))
	if err != nil || len(pages) < 12 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("%s is not in the index", name)
		}
	}
}

func TestEveryLinkOfTheGuideHasATarget(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(guide, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	anchor := regexp.MustCompile(`[^a-z0-9 -]`)
	for _, page := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)\s"]+)\)`).FindAllStringSubmatch(doctest.Read(t, page), -1) {
			path, section, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := filepath.Join(guide, cmp.Or(path, filepath.Base(page)))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if section == "" {
				continue
			}
			found := false
			for line := range strings.Lines(doctest.Read(t, target)) {
				title, is := strings.CutPrefix(strings.TrimSpace(line), "## ")
				found = found || is && strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-") == section
			}
			if !found {
				t.Errorf("%s: %s has no section %s", page, path, section)
			}
		}
	}
}
