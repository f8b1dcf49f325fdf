package history_test

import (
	"testing"

	"github.com/pawlrun/pawl/pkg/history"
)

// BenchmarkCodec writes and reads the events of the golden file once.
func BenchmarkCodec(b *testing.B) {
	all := golden()
	var raw [][]byte
	for _, e := range all {
		bytes, err := history.Encode(e)
		if err != nil {
			b.Fatal(err)
		}
		raw = append(raw, bytes)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, e := range all {
				if _, err := history.Encode(e); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i, bytes := range raw {
				if _, err := history.Decode(uint64(i+1), bytes); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
