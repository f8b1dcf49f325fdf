package shard

import (
	"maps"
	"sync"
	"time"
)

// declines bounds for what this process declines partitions. The first tenure in which an instance lacks code that fits, or a key, declines as long as
// the instance is stalled: another member may have that, now or soon. If the partition comes back and the instance is still stalled, none
// had it. Then it is no reason for a while, and after each further return for twice as long: an instance that no member can run must not keep a
// partition away from the member that can run the others.
type declines struct {
	mu  sync.Mutex
	all map[reason]*declined
}

type reason struct{ instance, kind string }

type declined struct {
	tenure string        // token of the last one in which the instance was stalled
	pause  time.Duration // after a return
	again  time.Time     // not before
	used   time.Time
}

const (
	firstRest = 20 * time.Minute // longer than a decline lasts, so that the partition stays for a while
	longRest  = 24 * time.Hour
)

// allow reports whether the tenure declines its partition because of the instance.
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
		s.pause = min(max(2*s.pause, firstRest), longRest)
		s.again = now.Add(s.pause)
	}
	return !now.Before(s.again)
}

// forget drops what has not been stalled here for a long time.
func (d *declines) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.all, func(_ reason, s *declined) bool { return now.Sub(s.used) > 2*longRest })
}
