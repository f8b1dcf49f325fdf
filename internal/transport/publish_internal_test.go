package transport

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// plainAck leaves PubAcks that it does not recognize to encoding/json, and agrees with it on all others.
func TestPubAcksAreReadAsJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		`{"stream":"PAWL-default-TASKS","seq":17}`:                     17,
		`{"stream":"S", "seq":18446744073709551615}`:                   18446744073709551615,
		`{"stream":"S", "seq": 17}`:                                    17,
		`{"stream":"S","domain":"hub","seq":17}`:                       17,
		`{"stream":"S","seq":17,"duplicate":true}`:                     17,
		`{"seq":17,"stream":"S"}`:                                      17,
		`{"stream":"S\",\"seq\":1","seq":17}`:                          17,
		`{"stream":"S","seq":17}}`:                                     0,
		`{"stream":"","seq":17}`:                                       0,
		`{"stream":"S","seq":017}`:                                     0,
		`{"stream":"S","seq":-1}`:                                      0,
		`{"stream":"S","seq":1e3}`:                                     0,
		`{"stream":"S","seq":17`:                                       0,
		`{"stream":"S","seq":18446744073709551616}`:                    0,
		`{"error":{"code":503,"err_code":10077},"stream":"S","seq":0}`: 0,
	} {
		seq, err := parseAck(&nats.Msg{Data: []byte(text)})
		if seq != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d, %v", text, seq, err)
		}
	}
	if _, ok := plainAck([]byte(`{"stream":"PAWL-default-TASKS","seq":17}`)); !ok {
		t.Error("a PubAck of the server is not recognized")
	}
}

// BenchmarkParseAck compares a PubAck that plainAck reads with one that is left to encoding/json.
func BenchmarkParseAck(b *testing.B) {
	for name, text := range map[string]string{"plain": `{"stream":"PAWL-default-TASKS","seq":1790000}`, "json": `{"seq":1790000,"stream":"PAWL-default-TASKS"}`} {
		b.Run(name, func(b *testing.B) {
			m := &nats.Msg{Data: []byte(text)}
			b.ReportAllocs()
			for b.Loop() {
				if seq, err := parseAck(m); seq == 0 || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
