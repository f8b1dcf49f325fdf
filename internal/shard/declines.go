package shard

import (
	"maps"
	"sync"
	"time"
)

// declines limits for which stalled instances this process declines partitions. In the first tenure in which an instance lacks matching code, or a
// key, the process declines the partition for as long as the instance is stalled: another member may have it, now or soon. If the partition
// returns and the instance is still stalled, no member had it. The instance then justifies no decline for a while, which doubles with each further
// return: an instance that no member can run must not keep a partition away from the member that can run the others.
type declines struct {
	mu  sync.Mutex
	all map[reason]*declined
}

type reason struct{ instance, kind string }

type declined struct {
	tenure string        // token of the latest tenure in which the instance was stalled
	pause  time.Duration // the latest one; 0 before the first return
	until  time.Time     // no decline before
	used   time.Time
}

const (
	firstDeclinePause = 20 * time.Minute // longer than a decline lasts, so that the partition stays with this process for a while
	maxDeclinePause   = 24 * time.Hour
)

// allow reports whether the tenure may decline its partition for this reason.
func (d *declines) allow(of reason, tenure string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.all[of]
	if s == nil {
		if d.all == nil {
			d.all = make(map[reason]*declined)
		}
		s = &declined{tenure: tenure}
		d.all[of] = s
	}
	s.used = now
	if s.tenure != tenure {
		s.tenure = tenure
		s.pause = min(max(2*s.pause, firstDeclinePause), maxDeclinePause)
		s.until = now.Add(s.pause)
	}
	return !now.Before(s.until)
}

// forget drops the reasons that have not occurred for two days.
func (d *declines) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.all, func(_ reason, s *declined) bool { return now.Sub(s.used) > 2*maxDeclinePause })
}
