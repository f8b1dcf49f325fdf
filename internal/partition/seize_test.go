package partition_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// change returns a run on a namespace with a number of partitions.
func change(t *testing.T, f *fleet, rdb redis.UniversalClient) *partition.Change {
	t.Helper()
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	return partition.NewChange(run, f.ns)
}

func TestSeizedPartitionsAreNotAcquired(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		k := f.member("a", stallTTL)
		f.until("a owns all", func() bool { return len(f.owners()) == parts })
		c := change(t, f, rdb)
		if _, _, err := c.Seize(f.ctx(), "change", 0); !isHeld(err, "a") {
			t.Errorf("a partition with an owner was seized: %v", err)
		}
		if err := k.Stop(f.ctx()); err != nil {
			t.Fatal(err)
		}
		for p := range parts {
			if _, secret, err := c.Seize(f.ctx(), "change", p); err != nil || secret == "" {
				t.Fatal(secret, err)
			}
		}
		late := f.member("late", time.Second)
		f.until("the member leaves", func() bool { return isResized(late.Resized(), 0) && left(f, "late") })
		for p := range parts {
			if err := c.Release(f.ctx(), "change", p, parts+1); err != nil {
				t.Fatal(err)
			}
		}
		later := f.member("later", time.Second)
		f.until("a member with the former number leaves", func() bool { return isResized(later.Resized(), parts+1) && left(f, "later") })
		if n := len(f.owners()); n != 0 {
			t.Errorf("%d partitions have owners", n)
		}
	})
}

func left(f *fleet, member string) bool {
	return errors.Is(f.rdb.HGet(f.ctx(), f.ns.Members(), member).Err(), redis.Nil)
}

func isHeld(err error, member string) bool {
	held, ok := errors.AsType[*partition.HeldError](err)
	return ok && held.Member == member
}

func isResized(err error, have int) bool {
	resized, ok := errors.AsType[*partition.ResizedError](err)
	return ok && resized.Have == have
}

func TestLaterRunOfAChangeFencesTheEarlierOne(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		first, second := change(t, f, rdb), change(t, f, rdb)
		if _, _, err := first.Take(f.ctx()); !errors.Is(err, partition.ErrNoNamespace) {
			t.Fatalf("a namespace that does not exist: %v", err)
		}
		must(t, rdb.HSet(f.ctx(), f.ns.Meta(), "partitions", "6").Err())
		if n, state, err := first.Take(f.ctx()); n != 6 || state != "" || err != nil {
			t.Fatal(n, state, err)
		}
		must(t, first.Save(f.ctx(), "copying"))
		_, _, err := first.Seize(f.ctx(), "change", 0)
		must(t, err)
		if n, state, err := second.Take(f.ctx()); n != 6 || state != "copying" || err != nil {
			t.Fatal(n, state, err)
		}
		_, _, err = second.Seize(f.ctx(), "change", 0)
		must(t, err)
		for name, err := range map[string]error{
			"save": first.Save(f.ctx(), "removing"), "commit": first.Commit(f.ctx(), 9), "begin": first.Begin(f.ctx(), "change", 0),
			"release": first.Release(f.ctx(), "change", 0, 9),
		} {
			if !errors.Is(err, partition.ErrChangeLost) {
				t.Errorf("%s by the earlier run: %v", name, err)
			}
		}
		must(t, second.Commit(f.ctx(), 9))
		must(t, second.Commit(f.ctx(), 9)) // its reply was lost
		if n, state, err := first.Take(f.ctx()); n != 9 || state != "" || err != nil {
			t.Error(n, state, err)
		}
	})
}

func TestPositionOfASeizedPartitionIsResetOnce(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		c := change(t, f, rdb)
		key := f.ns.Part(0).Owner()
		must(t, rdb.HSet(f.ctx(), key, "seq", "7", "time", "70").Err())
		at, _, err := c.Seize(f.ctx(), "change", 0)
		if must(t, err); at.Seq != 7 || at.Time != 70 {
			t.Errorf("position %+v", at)
		}
		must(t, c.Begin(f.ctx(), "change", 0))
		if seq := rdb.HGet(f.ctx(), key, "seq").Val(); seq != "0" {
			t.Errorf("the position is %s", seq)
		}
		must(t, rdb.HSet(f.ctx(), key, "seq", "3", "time", "30").Err()) // ingested
		must(t, c.Begin(f.ctx(), "change", 0))
		if seq := rdb.HGet(f.ctx(), key, "seq").Val(); seq != "3" {
			t.Errorf("the position is %s after a crash", seq)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
