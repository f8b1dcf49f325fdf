package pawl_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
)

// FuzzID checks any text as an id, as a name and as an escaped id. An error is typed and has a bounded text. Every text has an escaped id, which
// differs from that of every other text.
func FuzzID(f *testing.F) {
	for _, text := range []string{"order-17", "", ".", "a..b", "a%2", "a%2F", "a%2f", "%zz", "ä/ \x00\xff", strings.Repeat("x", 201), strings.Repeat("\xff", 5000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, unescaped := pawl.UnescapeID(text)
		for _, err := range []error{pawl.ValidateID(text), pawl.ValidateName(text), unescaped} {
			var named *pawl.NameError
			if err != nil && (!errors.As(err, &named) || named.Text != text || len(err.Error()) > 3000) {
				t.Errorf("%T, %d bytes: %.200v", err, len(err.Error()), err)
			}
		}
		id := pawl.EscapeID(text)
		if again, err := pawl.UnescapeID(id); err != nil || again != text {
			t.Errorf("%q became %q, then %q, %v", text, id, again, err)
		}
		if err := pawl.ValidateID(id); err != nil && text != "" && len(id) <= 200 {
			t.Errorf("%q became %q: %v", text, id, err)
		}
	})
}
