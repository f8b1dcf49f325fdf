package eventcodec_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
)

// BenchmarkCodec encodes and decodes the events of the golden file once.
func BenchmarkCodec(b *testing.B) {
	all := golden()
	var raw [][]byte
	for _, e := range all {
		raw = append(raw, encode(b, e))
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, e := range all {
				if _, err := eventcodec.Encode(e); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i, bytes := range raw {
				if _, err := eventcodec.Decode(uint64(i+1), bytes); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
