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
	gcHeadroom   = 256 << 20 // maximum memory beyond Go's default, bytes
	cgroupMemory = "/sys/fs/cgroup/memory.max"
	liveHeap     = "/gc/heap/live:bytes"
)

var relaxOnce sync.Once

// RelaxGC trades memory for processor time. Garbage is collected when the heap has grown to up to five times the live heap, instead of
// twice. The memory beyond Go's default is limited to 256 MiB and to a quarter of the memory limit. That is GOMEMLIMIT or, if it is not set,
// nine tenths of the limit of the container, which RelaxGC sets. RelaxGC does nothing if GOGC is set. Only Pawl's own programs call it.
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

// containerLimit returns nine tenths of the memory limit of a container, from the content of its memory.max.
func containerLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // "max" means no limit
	return n / 10 * 9, err == nil && n > 0
}

// collector adapts the target of the garbage collector to the live heap. Nothing refers to it, so that its finalizer runs after each
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

// gcPercent returns the target at which the memory beyond Go's default is at most the headroom.
func gcPercent(live, headroom uint64) int {
	return int(min(goGC+100*headroom/max(live, 1), relaxedGC))
}
