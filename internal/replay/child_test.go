package replay_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func child(x *replay.Code, name string) *replay.Future {
	return x.Call(replay.Call{Child: &replay.Child{Name: name}, Payload: text("in")})
}

func TestDerivedChildIDsAreUniqueAcrossExecutionsAndIncarnations(t *testing.T) {
	alphabet := regexp.MustCompile(`^[A-Za-z0-9_:@=+~%-]{1,200}$`)
	seen := make(map[string]string)
	for _, instance := range []string{"o", "order-42", "order-42~1", strings.Repeat("x", 170), strings.Repeat("x", 190), strings.Repeat("x", 200)} {
		for _, origin := range []history.Position{{Seq: 1, Time: 2}, {Seq: 2, Time: 1}, {Seq: 1, Time: 3}} {
			for execution := range uint64(30) {
				for event := range uint64(30) {
					id := replay.ChildID(effectid.Identity{Instance: instance, Origin: origin, Execution: execution}, event)
					what := fmt.Sprint(instance, origin, execution, event)
					if was, twice := seen[id]; twice {
						t.Fatalf("%s and %s have the id %s", was, what, id)
					}
					if seen[id] = what; !alphabet.MatchString(id) {
						t.Fatalf("%q is not a valid id", id)
					}
				}
			}
		}
	}
}

// Derived ids are in histories and in instances, so the derivation must never change.
func TestDerivedChildIDsAreReadable(t *testing.T) {
	id := effectid.Identity{Instance: "order-42", Origin: history.Position{Seq: 7, Time: 8}, Execution: 3}
	if got := replay.ChildID(id, 12); got != "order-42~3-12-OdzDo7" {
		t.Error(got)
	}
	id.Instance = strings.Repeat("x", 200)
	long := replay.ChildID(id, 12)
	if len(long) != 200 || long != strings.Repeat("x", 177)+"~O7ipjIYeWAq1SLLmI0onPw" {
		t.Error(long)
	}
	id.Instance = long
	if grandchild := replay.ChildID(id, 12); len(grandchild) != 200 || grandchild == long {
		t.Error(grandchild)
	}
}

func TestEndOfAChildWithAnotherEffectIsDropped(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) { return get(x, child(x, "c")) })
	d.Start(text(""))
	start := d.OnlyChild()
	for _, in := range []history.Event{
		&history.ChildCompleted{Scheduled: start.ID, Effect: "of a lost turn"},
		&history.ChildFailed{Scheduled: start.ID},
		&history.ActivityCompleted{Scheduled: start.ID},
		&history.ChildCompleted{Scheduled: 1, Effect: start.Effect},
	} {
		if o, _ := d.Offer(in); o != replay.DroppedLate {
			t.Errorf("%+v: %s", in, o)
		}
	}
	d.CompleteChild(start.ID, text("done"))
	wantResult(t, d, "done")
}

func TestEffectIDOfAChildDependsOnEveryField(t *testing.T) {
	seen := make(map[string]bool)
	for i, start := range []func(x *replay.Code, c replay.Child) error{
		func(x *replay.Code, c replay.Child) error { return x.Launch(c, text("in"), nil) },
		func(x *replay.Code, c replay.Child) error {
			_, err := get(x, x.Call(replay.Call{Child: &c, Payload: text("in")}))
			return err
		},
		func(x *replay.Code, c replay.Child) error {
			_, err := get(x, x.Call(replay.Call{Child: &c, Payload: text("IN")}))
			return err
		},
	} {
		for _, c := range []replay.Child{{Name: "a", Instance: "b"}, {Name: "a", Instance: "b", Version: "1"}, {Name: "a", Instance: "b1"}, {Name: "ab", Instance: "b"}} {
			d := drive(t, func(x *replay.Code) (string, error) { return "", start(x, c) })
			d.Start(text(""))
			effect := d.EffectOf(2)
			if seen[effect] || len(effect) != 22 {
				t.Errorf("start %d of %+v: the effect %q is not unique", i, c, effect)
			}
			seen[effect] = true
		}
	}
}

func TestChildrenCountTowardsTheLimitOfOutstandingCalls(t *testing.T) {
	d := replaytest.New(t, program(func(x *replay.Code) (string, error) {
		start(x, "a", "")
		child(x, "b")
		x.Call(replay.Call{Child: &replay.Child{Name: "c", Abandon: true}})
		return get(x, child(x, "d"))
	}), replay.Options{Limits: replay.Limits{Outstanding: 3}})
	d.Start(text(""))
	wantFailure(t, d, history.CodeTooMany, "child d was not scheduled: 3 activities and children are outstanding")
}

func TestWideFanInOfChildrenReplaysForAnyOrderOfTheirEnds(t *testing.T) {
	const n = 1024
	d := drive(t, func(x *replay.Code) (string, error) {
		fs := make([]*replay.Future, n)
		for i := range fs {
			fs[i] = child(x, "c")
		}
		sum := 0
		for _, f := range fs {
			v, err := get(x, f)
			if err != nil {
				return "", err
			}
			sum += len(v)
		}
		return fmt.Sprint(sum), nil
	})
	d.Start(text(""))
	for i := range n { // 641 and 1024 are coprime
		d.CompleteChild(uint64(2+i*641%n), text("x"))
	}
	wantResult(t, d, "1024")
	d.CheckRecord()
}

// Each attempt of a child is a separate instance. An attempt that was cancelled is the last one.
func TestChildIsRetriedUntilItIsCancelled(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		return get(x, x.Call(replay.Call{Child: &replay.Child{Name: "c", Instance: "id"}, Retry: replay.Retry{Attempts: 3, Initial: time.Second, Factor: 1, Max: time.Second}, AttemptTimeout: time.Second}))
	})
	wantKinds(t, d.Start(text("")), history.KindChildScheduled)
	wantKinds(t, d.FailChild(2, oops), history.KindTimerScheduled)
	d.Fire()
	last := uint64(len(d.History))
	if c := d.History[last-1].(*history.ChildScheduled); c.Instance != "id~2" {
		t.Fatalf("the second attempt is %+v", c)
	}
	d.FailChild(last, history.Failure{Code: history.CodeCancelled, Message: "by an operator"})
	if d.End().Kind() != history.KindFailed {
		t.Fatalf("ended with %+v", d.End())
	}
	d.CheckReplay()
}

func TestChildIsCancelledWithTheReasonOfItsParent(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if x.Parent() == nil || x.Parent().Instance != "parent" {
			return "", errors.New("another parent")
		}
		return call(x, "a", "")
	})
	d.Feed(&history.Started{Name: "c", Parent: &history.Parent{Instance: "parent", Effect: "mine"}})
	if o, _ := d.Offer(&history.CancelRequested{By: "parent", Of: "another start's"}); o != replay.DroppedLate {
		t.Errorf("the cancellation of another start: %s", o)
	}
	made := d.Feed(&history.CancelRequested{By: "parent", Reason: cancel.LostSelect, Of: "mine"})
	if c := made[0].(*history.ActivityCancelRequested); c.Reason != cancel.LostSelect || c.By != "parent" {
		t.Errorf("cancelled: %+v", c)
	}
	d.CheckReplay()
}

func TestUnrecordedCancellationOfAChildIsRecordedWithTheNextInput(t *testing.T) {
	events := numbered(&history.Started{}, &history.ChildScheduled{Name: "c", Instance: "c-1", Payload: text("in"), Effect: "e"},
		&history.EventReceived{Name: "go"})
	x, err := replayWith(func(x *replay.Code) (string, error) {
		c := x.Call(replay.Call{Child: &replay.Child{Name: "c", Instance: "c-1"}, Payload: text("in")})
		if _, err := get(x, x.Next("go", nil)); err != nil {
			return "", err
		}
		c.Withdraw(lostSelect, "newer code")
		return get(x, x.Next("go", nil))
	}, replay.Options{}, events)
	if err != nil || len(x.Children()) > 0 {
		t.Fatal(err, x.Children())
	}
	if _, err := x.Apply(&history.EventReceived{Name: "noise"}); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, x.Take(), history.KindEventReceived, history.KindChildCancelRequested)
	if err := x.Evict(); err != nil {
		t.Fatal(err)
	}
}

func TestDeferredCodeDecidesNothingDuringUnwinding(t *testing.T) {
	ran := 0
	d := drive(t, func(x *replay.Code) (string, error) {
		for _, call := range []func(){
			func() { child(x, "c") },
			func() { _ = x.Launch(replay.Child{Name: "c", Instance: "i"}, text(""), nil) },
			func() { _ = x.Send("i", "e", text(""), nil) },
			func() { _ = x.ContinueAsNew(text(""), "", nil) },
			func() { _ = x.SetStatus("", text("")) },
			func() { x.Patched("p") },
		} {
			defer func() {
				ran++
				call()
				t.Error("a call returned")
			}()
		}
		return call(x, "a", "")
	})
	d.Start(text(""))
	if err := d.X.Evict(); err != nil || ran != 6 {
		t.Fatal(err, ran)
	}
	if _, version := d.X.Status(); len(d.X.Take()) > 0 || version > 0 {
		t.Fatal("something was decided")
	}
}
