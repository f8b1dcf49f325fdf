package history_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/pkg/history"
)

// FuzzDecodeUpdateAnswer decodes any bytes as the answer to an update. The error of a rejection is typed and has a bounded text. An accepted
// answer is the same after it is encoded and decoded again.
func FuzzDecodeUpdateAnswer(f *testing.F) {
	result := history.Payload{Type: history.TypeJSON, Data: []byte(`{"left":2}`)}
	for _, a := range []history.UpdateAnswer{
		{},
		{At: 1_790_000_000_000, Result: result},
		{At: -1, Failure: &history.Failure{Code: "sold-out", Message: "nothing is left", Data: result, Also: []string{"a"}}},
	} {
		b, err := a.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	for _, e := range golden() { // other events
		f.Add(encode(f, e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := history.DecodeUpdateAnswer(b)
		if err != nil {
			if !errors.Is(err, history.ErrCorrupt) && !errors.Is(err, history.ErrNewerVersion) || len(err.Error()) > 1000 {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		encoded, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := history.DecodeUpdateAnswer(encoded); err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("%+v became %+v, %v", a, again, err)
		}
	})
}

// FuzzParseAttributes parses any text as the attributes of a start. The error of a rejection is typed and has a bounded text. Accepted
// attributes are the same after they are formatted and parsed again.
func FuzzParseAttributes(f *testing.F) {
	for _, text := range []string{
		`{"customer":"acme","items":-7,"express":true,"due":{"time":"2026-11-22T08:00:00+01:00"}}`, `{"a":1e3}`, `{"a":9223372036854775808}`, `{"a":null}`, `{"a":{"time":"x"}}`,
		`{"a":"b","a":"c"}`, `{"A b":1}`, `{"status":"x"}`, `{} {}`, `[]`, `{"a":[`, `{"a":"\u0000\ud800"}`, `null`, `{"a":{"time":"9999-12-31T23:59:59.999999999Z"}}`,
		`{"a":{"time":"0000-01-01T00:00:00+01:00"}}`, `{"a":{"time":"9999-12-31T23:59:59-01:00"}}`, `{"` + strings.Repeat("n", 10_000) + `":null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := history.ParseAttributes(text)
		if err != nil {
			if !errors.Is(err, history.ErrAttribute) || len(err.Error()) > 2000 {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		if again, err := history.ParseAttributes(all.String()); err != nil || !reflect.DeepEqual(again, all) && len(all) > 0 {
			t.Errorf("%v became %v, %v", all, again, err)
		}
	})
}
