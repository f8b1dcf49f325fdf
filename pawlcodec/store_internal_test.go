package pawlcodec

import (
	"runtime"
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
