package sealing

import (
	"runtime"
	"strings"
	"testing"
)

// A reference announces 64 MiB for an object of a few bytes, which opens to a kilobyte or a megabyte.
func TestAnnouncedSizeTakesNoMemory(t *testing.T) {
	for _, opens := range []int{1 << 10, 1 << 20} {
		body := encoder().EncodeAll(make([]byte, opens), nil)
		var before, after runtime.MemStats
		_, _ = unpack(body, maxStored) // creates the decoder
		runtime.ReadMemStats(&before)
		b, err := unpack(body, maxStored)
		runtime.ReadMemStats(&after)
		if err != nil || len(b) != opens {
			t.Fatalf("%d bytes of %d, %v", len(b), opens, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 || cap(b) > 2*opens+64 {
			t.Errorf("%d bytes took %d of memory, and hold %d", opens, took, cap(b))
		}
		if b, err := unpack(body, opens-1); err == nil {
			t.Errorf("%d bytes opened where %d were announced", len(b), opens-1)
		}
	}
}

// FuzzParseReference parses any bytes as a reference to an object. The name of an accepted one begins with a role, so that it is no other
// subject, and has no further characters than digits; the sizes are bounded, and the reference is the same after it is encoded again.
func FuzzParseReference(f *testing.F) {
	digits := strings.Repeat("0a", nameBytes)
	f.Add(reference{name: ByClient + "." + digits, size: 3, opens: 7}.append(nil))
	f.Add(reference{name: ByWorker + "." + digits, size: maxStored, opens: maxStored}.append(nil))
	f.Add(reference{name: ByOrchestrator + ".>" + digits[1:], size: 3, opens: 7}.append(nil))
	f.Add(reference{name: digits, size: maxStored + 100, opens: 7}.append(nil))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := parseReference(b)
		if !ok {
			return
		}
		role, name, _ := strings.Cut(r.name, ".")
		if role != ByClient && role != ByOrchestrator && role != ByWorker || strings.Trim(name, "0123456789abcdefABCDEF") != "" || len(name) != 2*nameBytes {
			t.Errorf("the name is %q", r.name)
		}
		if r.size < 0 || r.opens < 0 || r.size > maxStored+gcmTag || r.opens > maxStored+gcmTag {
			t.Errorf("%d bytes, which open to %d", r.size, r.opens)
		}
		if again, ok := parseReference(r.append(nil)); !ok || again != r {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}
