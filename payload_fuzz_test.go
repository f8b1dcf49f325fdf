package pawl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

// authored has a field of each kind that an author's type may have.
type authored struct {
	Text    string               `json:"text"`
	Count   int64                `json:"count"`
	Small   uint8                `json:"small,omitempty"`
	Ratio   float64              `json:"ratio,string"`
	At      time.Time            `json:"at"`
	Until   *time.Time           `json:"until,omitzero"`
	Blob    []byte               `json:"blob"`
	Any     any                  `json:"any"`
	Raw     json.RawMessage      `json:"raw,omitempty"`
	Number  json.Number          `json:"number,omitempty"`
	Amount  *big.Int             `json:"amount"`
	Hosts   map[netip.Addr][]int `json:"hosts"`
	Nested  map[int]authored     `json:"nested"`
	Next    *authored            `json:"next"`
	Options [3]bool              `json:"options"`
	authoredBase
}

type authoredBase struct {
	Name string `json:"name"`
}

// FuzzDecodePayload decodes arbitrary bytes into an author's type. Accepted bytes must encode again, with the same result the second
// time; rejected bytes must be ErrUndecodable. Nothing may panic.
func FuzzDecodePayload(f *testing.F) {
	typed, generic := pawl.NewEvent[authored]("typed"), pawl.NewEvent[any]("generic")
	full := must(author.Value(typed).Encode(authored{
		Text: "<ä>", Count: 1 << 60, At: time.Unix(1, 2).UTC(), Blob: []byte{0, 255}, Any: map[string]any{"a": []any{1.5, nil}},
		Raw: json.RawMessage(`[1e5]`), Number: "1.0", Amount: big.NewInt(-3), Hosts: map[netip.Addr][]int{netip.MustParseAddr("::1"): nil},
		Nested: map[int]authored{-1: {}}, Next: &authored{},
	}))
	f.Add(full.Data)
	for _, seed := range []string{
		`null`, `{}`, `[]`, `{"any":9007199254740993}`, `{"any":-0}`, `{"at":"2026-03-01T12:00:00+01:00"}`, `{"at":"0000-01-01T00:00:00Z"}`,
		`{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `{"TEXT":"x","text":"y","text":"z"}`, `{"raw":null,"number":"1"}`, `{"number":1e999,"amount":1e3}`,
		`{"hosts":{"":[]}}`, `{"nested":{"01":{}}}`, `{"options":[true,false,true,true]}`, `{"ratio":"-0"}`, `{} x`, `{"next":{"next":{"next":null}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Add(bytes.Repeat([]byte("["), 3000))
	f.Fuzz(func(t *testing.T, data []byte) {
		decodePayload(t, typed, data)
		decodePayload(t, generic, data)
	})
}

func decodePayload[T any](t *testing.T, e pawl.Event[T], data []byte) {
	t.Helper()
	v, err := author.Value(e).Decode(history.Payload{Type: history.TypeJSON, Data: data})
	if err != nil {
		if !errors.Is(err, pawl.ErrUndecodable) || len(err.Error()) > 9000 {
			t.Errorf("%.1000q: %d bytes: %.1000v", data, len(err.Error()), err)
		}
		return
	}
	once, err := author.Value(e).Encode(v)
	if errors.Is(err, pawl.ErrUnencodable) {
		return // such as a pointer to a null
	}
	if err != nil {
		t.Fatalf("%q decodes to %+v, which does not encode: %v", data, v, err)
	}
	again, err := author.Value(e).Decode(once)
	if err != nil {
		t.Fatalf("%q encodes to %s, which does not decode: %v", data, once.Data, err)
	}
	if twice := must(author.Value(e).Encode(again)); !bytes.Equal(once.Data, twice.Data) {
		t.Errorf("%q encodes to %s, and then to %s", data, once.Data, twice.Data)
	}
}
