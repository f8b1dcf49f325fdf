package pawltest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// adding sends its input, and then a zero, to a counter.
func adding(to string) pawl.OrchestrationBinding {
	return parent.Do(func(ctx *pawl.Context, _ string) (string, error) {
		for _, n := range []int{5, 6, 0} {
			if err := add.Send(ctx, to, n); err != nil {
				return "", err
			}
		}
		return "", nil
	})
}

func TestEventReachesAnInstanceOfTheEnv(t *testing.T) {
	env := pawltest.New(t, adding("sums"), counter.Do(count))
	pawltest.Start(env.BeforeStart().To("sums"), counter, 1)
	if _, err := pawltest.Run(env, parent, "x"); err != nil {
		t.Fatal(err)
	}
	if got, err := pawltest.Result(env.Of("sums"), counter); got != 12 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	env.WantLines("EventSent add to sums 5", "EventSent add to sums 6")
	env.Of("sums").Execution(1).WantLines("EventReceived add 5 by test", "EventReceived add 6 by test")
	if len(env.Sent()) > 0 {
		t.Errorf("%q", env.Sent())
	}
}

func TestEventWaitsADayForAnInstanceThatStartsLater(t *testing.T) {
	for after, want := range map[time.Duration]string{23 * time.Hour: "[]", 25 * time.Hour: "[add to sums 5 add to sums 6 add to sums 0]"} {
		env := pawltest.New(t, adding("sums"), counter.Do(count))
		pawltest.Start(env.At(after).To("sums"), counter, 1)
		if _, err := pawltest.Run(env, parent, "x"); err != nil {
			t.Fatal(err)
		}
		if got := pawltest.SentTo(env, "sums", add); !slices.Equal(got, []int{5, 6, 0}) {
			t.Errorf("%v", got)
		}
		env.Advance(after)
		if got := fmt.Sprint(env.Sent()); got != want {
			t.Errorf("after %s: %s, not %s", after, got, want)
		}
	}
}

func TestSentReturnsMessagesToInstancesOutsideTheEnv(t *testing.T) {
	env := pawltest.New(t, adding("outside"))
	pawltest.Send(env.At(0).To("outside"), add, 99)
	if _, err := pawltest.Run(env, parent, "x"); err != nil {
		t.Fatal(err)
	}
	if got := pawltest.SentTo(env, "outside", add); !slices.Equal(got, []int{5, 6, 0}) {
		t.Errorf("%v", got)
	}
	if got := pawltest.SentTo(env, "another", add); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := fmt.Sprint(env.Sent()); got != "[add to outside 5 add to outside 6 add to outside 0]" {
		t.Error(got)
	}
}

func TestToSelectsTheInstanceOfAMoment(t *testing.T) {
	env := pawltest.New(t, calling(pawl.ID("c-1")), child.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return answered.Receive(ctx)
	}))
	pawltest.Send(env.At(time.Hour).To("c-1"), answered, "by a moment")
	if got, err := pawltest.Run(env, parent, "x"); got != "by a moment" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env = pawltest.New(t, calling(pawl.ID("c-1")), child.Do(mailing), mail.Do(send))
	env.Script(mail, pawltest.Never())
	env.Blocked().To("absent").Cancel("Ada", "unknown")
	env.Blocked().To("c-1").Cancel("Ada", "enough")
	_, err := pawltest.Run(env, parent, "x")
	if err == nil || err.Error() != "cancelled: requested by Ada: enough" {
		t.Errorf("%v", err)
	}
}

func TestMomentMayFollowAnyTurn(t *testing.T) {
	for turn := 1; ; turn++ {
		env := pawltest.New(t, calling(pawl.ID("c-1")), child.Do(mailing), mail.Do(send))
		env.AfterTurn(turn).Cancel("Ada", "enough")
		_, err := pawltest.Run(env, parent, "x")
		switch {
		case turn < 4 && err == nil:
			t.Errorf("cancelled after turn %d, it ended well", turn)
		case turn >= 4 && err != nil:
			t.Errorf("after turn %d: %v", turn, err)
		}
		if env.Turns() < turn {
			break
		}
	}
}

func TestEventStartsItsMissingReceiverOnce(t *testing.T) {
	feeding := parent.Do(func(ctx *pawl.Context, _ string) (string, error) {
		for _, n := range []int{5, 6, 0} {
			if err := pawl.SendOrStart(ctx, counter, "sums", 1, add, n); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	env := pawltest.New(t, feeding, counter.Do(count))
	if _, err := pawltest.Run(env, parent, "x"); err != nil {
		t.Fatal(err)
	}
	if got, err := pawltest.Result(env.Of("sums"), counter); got != 12 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	env.WantLines("EventSent add to sums (or a new counter 1) 5")
	env.Of("sums").Execution(1).WantLines("Started counter 1 by test", "EventReceived add 5 by test", "EventReceived add 6 by test")
	if len(env.Sent()) > 0 {
		t.Errorf("%q", env.Sent())
	}

	env = pawltest.New(t, feeding) // the orchestration is not bound
	if _, err := pawltest.Run(env, parent, "x"); err != nil {
		t.Fatal(err)
	}
	if got := pawltest.SentTo(env, "sums", add); !slices.Equal(got, []int{5, 6, 0}) {
		t.Errorf("%v", got)
	}
}
