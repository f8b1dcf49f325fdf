package crash

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/tests/stack"
)

// twoMasters starts NATS and two Redis servers that share the slots. Each Redis syncs its AOF every second.
func twoMasters(t *testing.T) servers {
	t.Helper()
	start := func() *redistest.Server {
		return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	return servers{nats: stack.StartNATS(t, bin), redis: start(), other: start()}
}

func appendLog(s *redistest.Server) string { return filepath.Join(s.Dir, "appendonlydir") }

// keep copies the current AOF of a Redis server. Redis ignores a command that is cut off at its end.
func (f *family) keep(s *redistest.Server) string {
	f.t.Helper()
	dir := filepath.Join(f.t.TempDir(), "log")
	f.must(os.CopyFS(dir, os.DirFS(appendLog(s))))
	return dir
}

// restore kills a Redis server and restarts it with a kept AOF: later writes are lost.
func (f *family) restore(s *redistest.Server, kept string) {
	f.t.Helper()
	s.Kill()
	f.must(os.RemoveAll(appendLog(s)))
	f.must(os.CopyFS(appendLog(s), os.DirFS(kept)))
	s.Restart(f.t)
}

// progress waits until the workers have run a number of further steps and the partitions have read further inputs.
func (f *family) progress(steps int) {
	f.t.Helper()
	f.steps(steps)
	before := f.applied(f.rdb)
	poll.Until(f.t, within, "inputs are read", func() bool { return f.applied(f.rdb) > before })
}

// Parents, and children with given ids, are on different masters, which are killed and lose writes separately.
func TestFamilyRecoversWhenRedisServersRollBackSeparately(t *testing.T) {
	for _, c := range []struct {
		name             string
		parents, child   int  // steps that have been run when the AOF of each is kept; -1: it is not killed
		steps            int  // steps that have been run when they are killed
		nats, orchestras bool // whether NATS and the orchestrators are killed as well
	}{
		{"the parents' server, while children run", 6, -1, 18, false, false},
		{"the children's server, after their parents have received the results", -1, 3, 28, false, false},
		{"both servers, the parents' to an earlier state", 4, 12, 24, false, false},
		{"both servers, with NATS and the orchestrators", 10, 5, 20, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, twoMasters(t), "PAWL_RECONCILE_INTERVAL=500ms")
			f.fleets()
			f.begin(4)
			kept := map[*redistest.Server]string{}
			keptAt := map[*redistest.Server]int{f.redis: c.parents, f.other: c.child}
			order := []*redistest.Server{f.redis, f.other}
			if c.child < c.parents {
				order = []*redistest.Server{f.other, f.redis}
			}
			for _, s := range order {
				if at := keptAt[s]; at >= 0 {
					f.steps(at)
					kept[s] = f.keep(s)
				}
			}
			f.progress(c.steps)
			if c.orchestras {
				f.Processes[0].Kill()
				f.Processes[1].Kill()
			}
			if c.nats {
				f.nats.Kill()
			}
			for s, log := range kept {
				f.restore(s, log)
			}
			if c.nats {
				f.nats.Start()
			}
			if c.orchestras {
				f.Processes[0].Start()
				f.Processes[1].Start()
			}
			f.sendNote()
			f.end()
		})
	}
}

// Tasks are held in memory and are lost with NATS; messages between instances wait until it is back.
func TestFamilyLosesNothingWhenServersRestart(t *testing.T) {
	t.Parallel()
	f := newFamily(t, twoMasters(t), "PAWL_RECONCILE_INTERVAL=500ms")
	f.fleets()
	f.begin(4)
	for _, steps := range []int{5, 15, 25} {
		f.steps(steps)
		f.other.Kill()
		f.nats.Kill()
		f.nats.Start()
		f.redis.Restart(t)
		f.other.Restart(t)
		f.sendNote()
	}
	f.end()
}

// Each process is killed at random times, and restarted.
func TestFamilyLosesNothingWhenProcessesAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	f := newFamily(t, startServers(t), "FLEET_OWNER_TTL=600ms", "PAWL_RECONCILE_INTERVAL=500ms")
	f.fleets()
	f.join()
	tick := time.NewTicker(350 * time.Millisecond)
	defer tick.Stop()
	for i := range 12 {
		if i < 4 {
			f.begin(1)
		}
		<-tick.C
		p := f.Processes[(i*5+i/4)%len(f.Processes)]
		p.Kill()
		p.Start()
	}
	f.end()
}
