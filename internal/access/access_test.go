package access

import (
	"strings"
	"testing"
)

func TestInvalidTokensAreNamedByTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "names no user",
		"# nothing\n\n":                    "names no user",
		"short viewer ada":                 "line 1: the token must have at least 16 characters (got 5)",
		"\nviewer-token-0123456789 root a": "line 2: the role must be",
		"viewer-token-0123456789 viewer":   "line 1: must have the fields token, role and name (got 2 fields)",
		"viewer-token-0123456789 viewer a\nviewer-token-0123456789 admin b": "line 2: the token is a duplicate",
	} {
		_, err := ReadTokens(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
