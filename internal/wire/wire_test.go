package wire_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pawlrun/pawl/internal/wire"
)

func nested(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0xc0) }

func TestCheckRejectsLengthsBeyondTheMessage(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":              {nil, wire.ErrTruncated},
		"array of 2^32":      {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, wire.ErrTruncated},
		"map of 2^32":        {[]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, wire.ErrTruncated},
		"string of 2^32":     {append([]byte{0x96, 0x01, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff}, "00000000"...), wire.ErrTruncated},
		"bytes of 2^32":      {[]byte{0xc6, 0xff, 0xff, 0xff, 0xff, 0}, wire.ErrTruncated},
		"extension of 2^32":  {[]byte{0xc9, 0xff, 0xff, 0xff, 0xff, 0, 0}, wire.ErrTruncated},
		"half a length":      {[]byte{0xdd, 0xff}, wire.ErrTruncated},
		"half a float":       {[]byte{0xcb, 1, 2}, wire.ErrTruncated},
		"never used code":    {[]byte{0xc1}, wire.ErrCode},
		"two values":         {[]byte{0xc0, 0xc0}, wire.ErrTrailing},
		"deepest":            {nested(wire.MaxDepth), nil},
		"too deep":           {nested(wire.MaxDepth + 1), wire.ErrTooDeep},
		"a million deep":     {nested(1 << 20), wire.ErrTooDeep},
		"nested in the last": {[]byte{0x92, 0xc0, 0x92, 0xc0, 0x90}, nil},
	} {
		if err := wire.Check(c.b); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestCheckAcceptsEveryKindOfValue(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	all := []any{
		nil, true, false, 1, -1, -200, 200, 70_000, -70_000, int64(1) << 40, -int64(1) << 40, uint64(1) << 63, float32(1), 1.5, "", "short", long[:40], long[:300], long,
		[]byte{}, []byte("b"), []byte(long[:300]), []byte(long), map[string]int{"a": 1}, []int{1, 2, 3}, make([]int, 70_000), make([]int, 20),
	}
	b, err := msgpack.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Check(b); err != nil {
		t.Error(err)
	}
	for _, ext := range [][]byte{{0xd4, 1, 0}, {0xd5, 1, 0, 0}, append([]byte{0xd8, 1}, make([]byte, 16)...), {0xc7, 2, 1, 0, 0}} {
		if err := wire.Check(ext); err != nil {
			t.Errorf("%x: %v", ext, err)
		}
	}
}

// Trap: a pooled decoder keeps a buffer as large as its largest message, or as the largest length that a message announced.
func TestRejectedMessagesAllocateNoMemory(t *testing.T) {
	lies := append([]byte{0x96, 0x01, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff}, "00000000"...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		if d, err := wire.Open(lies); err == nil {
			wire.Close(d, len(lies))
			t.Fatal("opened")
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

// A message that Check accepts can be decoded, and a message that the decoder reads completely is accepted.
func FuzzCheck(f *testing.F) {
	for _, b := range [][]byte{nil, {0xc0}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0x82, 0xa1, 'a', 1, 0xa1, 'b', 0x91, 0xc3}, nested(10), {0xd4, 1, 0}, {0xc1}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := wire.Check(b)
		if errors.Is(err, wire.ErrTooDeep) {
			return
		}
		r := bytes.NewReader(b)
		skipped := msgpack.NewDecoder(r).Skip()
		if accepted := err == nil; accepted != (skipped == nil && r.Len() == 0) {
			t.Errorf("%x: Check: %v, Skip: %v, %d bytes left", b, err, skipped, r.Len())
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	msg, err := msgpack.Marshal([]any{1, "order-1", "activity", 123456789, []any{1, 2, "three"}, []byte(strings.Repeat("p", 200))})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := wire.Check(msg); err != nil {
			b.Fatal(err)
		}
	}
}

// A turn that was abandoned may still be encoding values that others read.
func TestEncodingDoesNotModifyValues(t *testing.T) {
	n := -5
	wire.Encode(func(c *wire.Codec) { c.Count(&n) })
	if n != -5 {
		t.Errorf("a count of -5 is %d after it was written", n)
	}
}
