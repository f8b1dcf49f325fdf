package pawltest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// fold receives one number and then drains.
func fold(ctx *pawl.Context, _ int) (int, error) {
	first, err := add.Receive(ctx)
	if err != nil {
		return 0, err
	}
	rest, err := add.Drain(ctx)
	return 100*first + len(rest), err
}

func TestPollReceivesEverythingOfItsInstant(t *testing.T) {
	for name, send := range map[string]func(*pawltest.Env){
		"before the start": func(env *pawltest.Env) {
			for range 5 {
				pawltest.Send(env.BeforeStart(), add, 1)
			}
		},
		"by moments of one time": func(env *pawltest.Env) {
			for range 5 {
				pawltest.Send(env.At(time.Hour), add, 1)
			}
			pawltest.Send(env.At(time.Hour+time.Millisecond), add, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := pawltest.New(t, counter.Do(fold))
			send(env)
			if got, err := pawltest.Run(env, counter, 0); got != 104 || err != nil {
				t.Errorf("folded to %d, %v", got, err)
			}
			env.WantLines("Started", "EventReceived", "EventReceived", "EventReceived", "EventReceived", "EventReceived", "Observed", "Completed")
		})
	}
}

// The poll includes all five events that the other instance sends in one turn.
func TestPollReceivesWhatAnotherInstanceSentAtItsInstant(t *testing.T) {
	sender := pawl.NewOrchestration[int, int]("sender")
	env := pawltest.New(t, counter.Do(fold), sender.Do(func(ctx *pawl.Context, _ int) (int, error) {
		for range 5 {
			if err := add.Send(ctx, "test", 1); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}))
	pawltest.Start(env.At(time.Hour).To("s-1"), sender, 0)
	if got, err := pawltest.Run(env, counter, 0); got != 104 || err != nil {
		t.Errorf("folded to %d, %v", got, err)
	}
}

// An activity that a turn schedules cannot end in the same turn, however short it is.
func TestPollDoesNotReceiveWhatItsOwnTurnScheduled(t *testing.T) {
	work := pawl.NewActivity[int, int]("work")
	env := pawltest.New(t, work.Do(double), counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		f := work.Start(ctx, n)
		early := f.Ready()
		if err := pawl.Sleep(ctx, time.Second); err != nil {
			return 0, err
		}
		if late := f.Ready(); early || !late {
			return 0, fmt.Errorf("ready %t, then %t", early, late)
		}
		return f.Get(ctx)
	}))
	if got, err := pawltest.Run(env, counter, 21); got != 42 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

// Work that repeats endlessly at one instant does not prevent a poll from completing.
func TestPollCompletesDespiteEndlessWork(t *testing.T) {
	work := pawl.NewActivity[int, int]("work")
	env := pawltest.New(t, work.Do(double), counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		done := false
		busy := pawl.Go(ctx, func(ctx *pawl.Context) (int, error) {
			rounds := 0
			for ; !done; rounds++ {
				if _, err := work.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return rounds, nil
		})
		if err := pawl.Sleep(ctx, 0); err != nil {
			return 0, err
		}
		_, ok, err := add.TryReceive(ctx)
		done = true
		if ok || err != nil {
			return 0, fmt.Errorf("received %t, %w", ok, err)
		}
		return busy.Get(ctx)
	}))
	if got, err := pawltest.Run(env, counter, 1); got == 0 || err != nil {
		t.Errorf("%d rounds, %v", got, err)
	}
}

func TestUnreadEventsAtTheEndAreRecorded(t *testing.T) {
	other := pawl.NewEvent[string]("other")
	env := pawltest.New(t, counter.Do(func(ctx *pawl.Context, _ int) (int, error) { return add.Receive(ctx) }))
	pawltest.Send(env.BeforeStart(), other, "a")
	for n := range 3 {
		pawltest.Send(env.BeforeStart(), add, n)
	}
	pawltest.Send(env.At(time.Hour), other, "late")
	if _, err := pawltest.Run(env, counter, 0); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(pawltest.Unread(env, add), pawltest.Unread(env, other)); got != "[1 2] [a]" {
		t.Errorf("unread: %s", got)
	}
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }
