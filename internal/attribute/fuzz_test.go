package attribute_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/attribute"
)

// FuzzParse parses any text as the attributes of a start. The error of a rejection is typed and has a bounded text. Accepted
// attributes are the same after they are formatted and parsed again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"customer":"acme","items":-7,"express":true,"due":{"time":"2026-11-22T08:00:00+01:00"}}`, `{"a":1e3}`, `{"a":9223372036854775808}`, `{"a":null}`, `{"a":{"time":"x"}}`,
		`{"a":"b","a":"c"}`, `{"A b":1}`, `{"status":"x"}`, `{} {}`, `[]`, `{"a":[`, `{"a":"\u0000\ud800"}`, `null`, `{"a":{"time":"9999-12-31T23:59:59.999999999Z"}}`,
		`{"a":{"time":"0000-01-01T00:00:00+01:00"}}`, `{"a":{"time":"9999-12-31T23:59:59-01:00"}}`, `{"` + strings.Repeat("n", 10_000) + `":null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := attribute.Parse(text)
		if err != nil {
			if !errors.Is(err, attribute.ErrInvalid) || len(err.Error()) > 2000 {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		if again, err := attribute.Parse(all.String()); err != nil || !reflect.DeepEqual(again, all) && len(all) > 0 {
			t.Errorf("%v became %v, %v", all, again, err)
		}
	})
}
