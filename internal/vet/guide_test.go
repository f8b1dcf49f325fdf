package vet

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/doctest"
)

const page = "../../docs/guide/determinism.md"

func TestGuideCodeIsAnalyzed(t *testing.T) {
	code := doctest.Read(t, "testdata/src/example.org/guide/guide.go")
	doctest.RequireShown(t, doctest.Read(t, page), 4, regexp.MustCompile(" *// want .*").ReplaceAllString(code, ""))
}

func TestGuideHasARowForEveryKind(t *testing.T) {
	text := doctest.Read(t, page)
	for _, k := range kinds() {
		if !strings.Contains(text, "\n| `"+string(k)+"` |") {
			t.Errorf("nothing about %s", k)
		}
	}
}
