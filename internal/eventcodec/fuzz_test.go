package eventcodec_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/pkg/history"
)

// FuzzStored reads arbitrary bytes from Redis as inbox elements, declarations of limits, and histories of two events.
func FuzzStored(f *testing.F) {
	f.Add(eventcodec.Element{ID: "id", At: 7, Body: []byte{0x93, 1, 9, 0}}.Encode())
	f.Add(eventcodec.EncodeDeclared(history.Declared{Group: "g", Action: &history.Policy{Concurrency: 1, Key: "a.b"}}))
	for _, e := range golden() {
		f.Add(encode(f, e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := eventcodec.ParseElement(b); err == nil {
			again, err := eventcodec.ParseElement(e.Encode())
			if err != nil || again.ID != e.ID || again.At != e.At || !bytes.Equal(again.Body, e.Body) {
				t.Errorf("%+v became %+v, %v", e, again, err)
			}
		} else if !errors.Is(err, eventcodec.ErrCorrupt) || len(err.Error()) > 1000 {
			t.Errorf("%.1000v", err)
		}
		if _, err := eventcodec.DecodeDeclared(b); err != nil && !errors.Is(err, eventcodec.ErrCorrupt) {
			t.Error(err)
		}
		var events []history.Event
		for id := range uint64(2) {
			if e, err := eventcodec.Decode(id+1, b); err == nil {
				events = append(events, e)
			}
		}
		fold.Check(events) // must not panic
	})
}
