package text

import (
	"strings"
	"testing"
)

func TestCutKeepsCharactersWhole(t *testing.T) {
	for n := range 8 {
		got := Cut("äöüß", n)
		if len(got) > n || !strings.HasPrefix("äöüß", got) {
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
