package eventcodec_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// FuzzDecodeUpdateAnswer decodes any bytes as the answer to an update. The error of a rejection is typed and has a bounded text. An accepted
// answer is the same after it is encoded and decoded again.
func FuzzDecodeUpdateAnswer(f *testing.F) {
	result := history.Payload{Type: history.TypeJSON, Data: []byte(`{"left":2}`)}
	for _, a := range []eventcodec.UpdateAnswer{
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
		a, err := eventcodec.DecodeUpdateAnswer(b)
		if err != nil {
			if !errors.Is(err, eventcodec.ErrCorrupt) && !errors.Is(err, eventcodec.ErrNewerVersion) || len(err.Error()) > 1000 {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		encoded, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := eventcodec.DecodeUpdateAnswer(encoded); err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("%+v became %+v, %v", a, again, err)
		}
	})
}
