package settings

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
)

const (
	goGC         = 100 // Go's default target, percent
	relaxedGC    = 400
	gcHeadroom   = 256 << 20 // maximum garbage beyond Go's default, bytes
	cgroupMemory = "/sys/fs/cgroup/memory.max"
	liveHeap     = "/gc/heap/live:bytes"
)

var relaxOnce sync.Once

// RelaxGC trades memory for processor time: garbage is collected when the heap is up to five times as large as what is live, instead of
// twice. The memory beyond Go's default is bounded by 256 MiB, and by a quarter of the memory limit: GOMEMLIMIT, or nine tenths of that
// of the container, which it sets. It does nothing if GOGC is set. Only the programs of Pawl call it.
func RelaxGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	relaxOnce.Do(func() {
		limit := debug.SetMemoryLimit(-1)
		if b, err := os.ReadFile(cgroupMemory); err == nil && limit == math.MaxInt64 {
			if n, ok := containerLimit(string(b)); ok {
				limit = n
				debug.SetMemoryLimit(limit)
			}
		}
		c := &collector{headroom: min(gcHeadroom, uint64(max(limit, 0))/4), percent: relaxedGC}
		debug.SetGCPercent(c.percent)
		c.rearm()
	})
}

// containerLimit returns the memory limit for a process in a container, from the content of its memory.max.
func containerLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // "max": none
	return n / 10 * 9, err == nil && n > 0
}

// collector adapts the target of the garbage collector to the live heap. It is garbage itself, and its finalizer runs after each
// collection.
type collector struct {
	headroom uint64
	percent  int
}

func (c *collector) rearm() { runtime.SetFinalizer(c, (*collector).collected) }

func (c *collector) collected() {
	sample := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(sample)
	percent := gcPercent(sample[0].Value.Uint64(), c.headroom)
	if change := percent - c.percent; change > 10 || change < -10 { // SetGCPercent stops the world
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	c.rearm()
}

// gcPercent returns the target that leaves the headroom for garbage beyond Go's default.
func gcPercent(live, headroom uint64) int {
	return int(min(goGC+100*headroom/max(live, 1), relaxedGC))
}
