package text

import (
	"strings"
	"testing"
)

func TestCutKeepsCharactersWhole(t *testing.T) {
	whole := "äöüß"
	for n := range len(whole) {
		got := Cut(whole, n)
		if len(got) > n || !strings.HasPrefix(whole, got) {
			t.Errorf("%d: %q", n, got)
		}
	}
	if got := Shorten("äöüß", 3); got != "ä"+Mark {
		t.Error(got)
	}
	if got := Shorten("äöüß", 8); got != "äöüß" {
		t.Error(got)
	}
}
