package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

const (
	crashUpdates    = 240 // updates of each case; PAWL_CRASH_UPDATES overrides it
	updatesInFlight = 24
	updateInstances = 2 // few, so that each continues as new
	twinOf          = 8 // one in so many updates is sent twice at the same time
	updateDeaths    = 3 // deaths per case, plus one for each 1,000 updates
	updatePasses    = 7 // passes of the crash point before a death, plus one for each 2,500 updates
	repeatAfter     = 50 * time.Millisecond
)

// updating is a harness whose clients send updates to instances, which number the updates that they execute.
type updating struct {
	*family
	n       int
	ids     []string
	answers []int           // by update
	ctx     context.Context //nolint:containedctx // ends before the context of the harness
	sending errgroup.Group
	sent    atomic.Int64 // number of updates with an answer
	calm    bool         // the orchestrator must no longer die
}

func newUpdating(t *testing.T, s servers) *updating {
	t.Helper()
	u := &updating{n: crashUpdates}
	if text := os.Getenv("PAWL_CRASH_UPDATES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("PAWL_CRASH_UPDATES is %q", text)
		}
		u.n = n
	}
	u.family = &family{harness: newHarness(t, s, "FLEET_OWNER_TTL=600ms")}
	u.answers = make([]int, u.n)
	for i := range max(updateInstances, u.n/800) { // each instance executes fewer updates than it keeps answers
		u.ids = append(u.ids, fmt.Sprintf("adder-%d", i))
	}
	ctx, stop := context.WithCancel(u.harness.ctx)
	u.ctx = ctx
	t.Cleanup(func() {
		stop()
		_ = u.sending.Wait()
	})
	return u
}

// begin starts the instances and sends the updates in the background.
func (u *updating) begin() {
	u.t.Helper()
	u.join()
	for _, id := range u.ids {
		_, err := client.Start(u.ctx, u.Client, work.Adder, id, 0)
		u.must(err)
	}
	u.all(u.send)
}

// all calls send for every update in the background.
func (u *updating) all(send func(i int) error) {
	u.sent.Store(0)
	u.sending.Go(func() error {
		var each errgroup.Group
		each.SetLimit(updatesInFlight)
		for i := range u.n {
			each.Go(func() error {
				defer u.sent.Add(1)
				return send(i)
			})
		}
		return each.Wait()
	})
}

// send sends an update. Some are sent by two callers at the same time.
func (u *updating) send(i int) (err error) {
	var twin errgroup.Group
	if i%twinOf == 0 {
		twin.Go(func() error {
			_, err := u.answer(i)
			return err
		})
	}
	u.answers[i], err = u.answer(i)
	return errors.Join(err, twin.Wait())
}

// answer sends update i until it has an answer, which is the number of its execution.
func (u *updating) answer(i int) (int, error) {
	return u.request(u.ids[i%len(u.ids)], "u-"+strconv.Itoa(i), i)
}

func (u *updating) request(instance, id string, n int) (int, error) {
	for {
		got, err := client.Update(u.ctx, u.Client, work.Add, instance, n, client.UpdateID(id))
		if f, rejected := errors.AsType[*pawl.Failure](err); rejected {
			return strconv.Atoi(f.Message)
		}
		if err == nil || u.ctx.Err() != nil {
			return got, err
		}
		select {
		case <-time.After(repeatAfter):
		case <-u.ctx.Done():
		}
	}
}

// answered waits until n updates have an answer, and restarts the orchestrator, which dies a limited number of times.
func (u *updating) answered(n int) {
	u.t.Helper()
	poll.Until(u.t, within+time.Duration(u.n)*10*time.Millisecond, fmt.Sprintf("%d updates have an answer", n), func() bool {
		if !u.calm && u.deaths >= updateDeaths+u.n/1000 {
			u.calm = true
			u.Processes[0].Setenv("PAWL_FAILPOINT=")
		}
		u.restartDead()
		return int(u.sent.Load()) >= n
	})
}

// end repeats every update, closes the instances, and compares. The answers to the updates of an instance are 1 to n, each
// once, and the instance has executed n updates. Without a rollback, each repeat has the answer of the first request.
func (u *updating) end(rolledBack bool) {
	u.t.Helper()
	u.answered(u.n)
	u.must(u.sending.Wait())
	first := slices.Clone(u.answers)
	u.all(func(i int) (err error) {
		u.answers[i], err = u.answer(i)
		return err
	})
	u.answered(u.n)
	u.must(u.sending.Wait())
	of := make([][]int, len(u.ids))
	for i, n := range u.answers {
		of[i%len(u.ids)] = append(of[i%len(u.ids)], n)
		if n != first[i] && !rolledBack {
			u.t.Errorf("update %d has the answer %d, and its repeat has %d", i, first[i], n)
		}
	}
	for k, id := range u.ids {
		executed, err := u.request(id, "close", work.CloseAdds)
		u.must(err)
		slices.Sort(of[k])
		for i, n := range of[k] {
			if n != i+1 {
				u.t.Errorf("%s: %d updates have the answers %v", id, len(of[k]), of[k])
				break
			}
		}
		if executed != len(of[k]) {
			u.t.Errorf("%s has executed %d updates, of %d", id, executed, len(of[k]))
		}
		u.untilEnded(id)
	}
	u.check()
}

// The only orchestrator dies after every few passes of a crash point, while updates are sent to instances that continue as
// new. Every update is executed once, even if it is sent twice, and every repeat receives the same answer. After a rollback
// of Redis the answer may differ, because the update is decided again, but it still belongs to one execution.
func TestUpdatesAreExecutedOnceWhenOwnerDiesAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, point := range []string{"orchestrator.ingested", "orchestrator.turned", "orchestrator.committed", "orchestrator.answered"} {
		for _, rollback := range []bool{false, true} {
			name := point
			if rollback {
				name += ", rollback"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				of := s
				if rollback {
					of = startDurableServers(t)
				}
				u := newUpdating(t, of)
				u.restartsDead = true
				u.orchestrator("orchestrator", fmt.Sprintf("PAWL_FAILPOINT=%s:%d", point, updatePasses+u.n/2500))
				u.begin()
				if rollback {
					u.answered(u.n / 4)
					kept := u.keep(u.redis)
					u.answered(u.n / 2)
					u.restore(u.redis, kept)
				}
				u.end(rollback)
				if u.deaths == 0 {
					t.Error("the orchestrator has not died")
				}
				t.Logf("%d updates, %d deaths", u.n, u.deaths)
			})
		}
	}
}
