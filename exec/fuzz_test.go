package exec

import (
	"strings"
	"testing"
)

// FuzzExcerpt writes any output of a program, in two parts. The excerpt keeps the beginning and the end, does not hold more than its limit,
// and counts what it omits.
func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("hello"), []byte(" world"), 64)
	f.Add([]byte("0123456789"), []byte("abcdef"), 4)
	f.Add([]byte(""), []byte("0123456789"), 3)
	f.Add([]byte("0123"), []byte("\n[... 7 bytes omitted ...]\n"), 1)
	f.Add([]byte("0123456789"), []byte("a"), -1)
	f.Fuzz(func(t *testing.T, first, second []byte, limit int) {
		x := newExcerpt(limit % 1000)
		for _, part := range [][]byte{first, second} {
			if n, err := x.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		all := string(first) + string(second)
		if kept := len(x.head) + len(x.tail); kept > max(2*x.half, 2) || int64(kept)+x.omitted != int64(len(all)) {
			t.Errorf("%d bytes are kept and %d omitted, of %d", kept, x.omitted, len(all))
		}
		got := x.text()
		if x.omitted == 0 {
			if got != all {
				t.Errorf("%q became %q", all, got)
			}
			return
		}
		head, tail := all[:x.half], all[len(all)-x.half:]
		if !strings.HasPrefix(got, head+"\n[... ") || !strings.HasSuffix(got, " bytes omitted ...]\n"+tail) {
			t.Errorf("%q became %q", all, got)
		}
	})
}
