package exec

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestExcerptKeepsBeginningAndEndAndCountsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 20).Draw(t, "limit")
		x := newExcerpt(limit)
		var all []byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 8).Draw(t, "sizes") {
			part := make([]byte, n)
			for i := range part {
				part[i] = 'a' + byte((len(all)+i)%26)
			}
			if k, err := x.Write(part); k != n || err != nil {
				t.Fatal(k, err)
			}
			all = append(all, part...)
		}
		half := limit / 2
		want, cut := string(all), max(0, len(all)-2*half)
		if cut > 0 {
			want = fmt.Sprintf("%s\n[... %d bytes omitted ...]\n%s", all[:half], cut, all[len(all)-half:])
		}
		if x.text() != want || x.omitted != int64(cut) {
			t.Fatalf("limit %d of %q: %q, %d cut", limit, all, x.text(), x.omitted)
		}
	})
}

func TestExcerptMemoryIsBounded(t *testing.T) {
	x := newExcerpt(0)
	for range 100 {
		_, _ = x.Write(bytes.Repeat([]byte("x"), 10_000))
	}
	if n := strings.Count(x.text(), "x"); n != defaultOutputLimit {
		t.Fatalf("%d bytes kept", n)
	}
	if n := cap(x.head) + cap(x.tail); n > 3*defaultOutputLimit {
		t.Fatalf("%d bytes of memory", n)
	}
}
