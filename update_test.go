package pawl_test

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

var (
	approve   = pawl.NewUpdate[string, string]("approve")
	errPoor   = pawl.NewError("poor")
	remaining = pawl.NewQuery[int, int]("remaining")
)

func request(d *replaytest.Driver, id, in string) []history.Event {
	return d.Feed(&history.UpdateReceived{Name: approve.Name(), UpdateID: id, Payload: must(author.Input(approve).Encode(in))})
}

// answers returns the answers in a history by the id of the update: a result, or the code of a rejection.
func answers(events []history.Event) map[string]string {
	ids, out := make(map[uint64]string), make(map[string]string)
	for _, e := range events {
		switch e := e.(type) {
		case *history.UpdateReceived:
			ids[e.ID] = e.UpdateID
		case *history.UpdateAnswered:
			if out[ids[e.Update]] = "rejected "; e.Failure == nil {
				out[ids[e.Update]] = must(author.Result(approve).Decode(e.Result))
			} else {
				out[ids[e.Update]] += e.Failure.Code
			}
		}
	}
	return out
}

func TestUpdatesAreReceivedInOrderAndAnsweredOnce(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		first, err := approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		second, err := approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		if err := second.Answer(ctx, "second "+second.Input); err != nil {
			return "", err
		}
		if err := first.Reject(ctx, errPoor); err != nil {
			return "", err
		}
		if err := first.Answer(ctx, "again"); !errors.Is(err, pawl.ErrAnswered) {
			t.Errorf("the second answer: %v", err)
		}
		return first.Input + second.Input, nil
	}, pawl.None{})
	request(r.Driver, "a", "1")
	request(r.Driver, "b", "2")
	if got := r.result(); got != "12" {
		t.Errorf("received %q", got)
	}
	if got := answers(r.History); got["a"] != "rejected poor" || got["b"] != "second 2" {
		t.Errorf("answered %v", got)
	}
}

func TestUpdateWithAnOpenIDIsDroppedAsARepeat(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		u, err := approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		_, err = approve.Next(ctx).Get(ctx)
		return u.Input, errors.Join(err, u.Answer(ctx, "done"))
	}, pawl.None{})
	request(r.Driver, "a", "1")
	outcome, _ := r.Offer(&history.UpdateReceived{Name: approve.Name(), UpdateID: "a", Payload: must(author.Input(approve).Encode("other"))})
	if outcome != replay.DroppedRepeated {
		t.Errorf("a repeat was %s", outcome)
	}
}

// A wait that loses a Select must not consume the update that arrived for it.
func TestUpdateThatLosesASelectStaysAvailable(t *testing.T) {
	poke := pawl.NewEvent[pawl.None]("poke")
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		event, update := poke.Next(ctx), approve.Next(ctx)
		if first, err := pawl.Select(ctx, event, update); err != nil || first != pawl.Selectable(event) {
			return "", errors.Join(err, errors.New("the event was first"))
		}
		u, err := approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		return u.Input, u.Answer(ctx, "late")
	}, pawl.None{})
	r.Send("poke", history.Payload{})
	request(r.Driver, "a", "kept")
	if got := r.result(); got != "kept" {
		t.Errorf("received %q", got)
	}
}

// Updates that were received but not answered come first, followed in order by those that were not received.
func TestContinueAsNewCarriesUpdates(t *testing.T) {
	again := pawl.NewOrchestration[int, string]("under-test")
	r := orchestrate(t, func(ctx *pawl.Context, round int) (string, error) {
		if round == 0 {
			a, b := approve.Next(ctx), approve.Next(ctx)
			if _, err := a.Get(ctx); err != nil {
				return "", err
			}
			if _, err := b.Get(ctx); err != nil {
				return "", err
			}
			if err := pawl.Await(ctx, func() bool { return pawl.Instance(ctx).Length > 4 }); err != nil {
				return "", err
			}
			return again.ContinueAsNew(ctx, 1)
		}
		var got string
		for range 3 {
			u, err := approve.Next(ctx).Get(ctx)
			if err != nil {
				return "", err
			}
			got += u.ID
			if err := u.Answer(ctx, u.ID); err != nil {
				return "", err
			}
		}
		return got, nil
	}, 0)
	for _, id := range []string{"a", "b", "c"} {
		if !r.X.Ended() {
			request(r.Driver, id, id)
		}
	}
	for !r.X.Ended() {
		r.Send("noise", history.Payload{})
	}
	r.Continue()
	if got := r.result(); got != "abc" {
		t.Errorf("the next execution received %q", got)
	}
}

func TestHandlersRunOneAtATimeUnlessConcurrent(t *testing.T) {
	work, stop := pawl.NewActivity[string, string]("work"), pawl.NewEvent[pawl.None]("stop")
	for n, want := range map[int]int{1: 1, 2: 2} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
				err := approve.Handle(ctx, func(ctx *pawl.Context, in string) (string, error) { return work.Call(ctx, in) }, pawl.Concurrent(n))
				if err != nil {
					return "", err
				}
				if _, err := stop.Receive(ctx); err != nil {
					return "", err
				}
				return "stopped", pawl.AwaitUpdates(ctx)
			}, pawl.None{})
			for _, id := range []string{"a", "b", "c"} {
				request(r.Driver, id, id)
			}
			if got := len(r.X.Outstanding()); got != want {
				t.Errorf("%d handlers run, want %d", got, want)
			}
			r.Fail(r.X.Outstanding()[0], *author.ToFailure(errPoor))
			r.Send("stop", history.Payload{})
			for len(r.X.Outstanding()) > 0 {
				r.Complete(r.X.Outstanding()[0], must(author.Result(work).Encode("done")))
			}
			if got := r.result(); got != "stopped" {
				t.Error(got)
			}
			if got := answers(r.History); got["a"] != "rejected poor" || got["b"] != "done" {
				t.Errorf("answered %v", got)
			}
		})
	}
}

func TestUpdateExpiresUnlessItWasReceivedBeforeItsDeadline(t *testing.T) {
	begin := pawl.NewEvent[pawl.None]("begin")
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		for range 2 {
			if _, err := begin.Receive(ctx); err != nil {
				return "", err
			}
			u, err := approve.Next(ctx).Get(ctx)
			if err != nil {
				return "", err
			}
			if err := u.Answer(ctx, "in time"); err != nil {
				return "", err
			}
		}
		return "", nil
	}, pawl.None{})
	timed := func(id string, left time.Duration) {
		r.Feed(&history.UpdateReceived{Name: approve.Name(), UpdateID: id, Payload: must(author.Input(approve).Encode("")), Deadline: r.Now + left.Milliseconds()})
	}
	timed("late", time.Second)
	timed("early", time.Minute)
	r.Advance(2 * time.Second)
	r.Fire()
	timed("past", -time.Second)
	r.Send("begin", history.Payload{})
	if _, _, set := r.X.NextTimer(); set {
		t.Error("the deadline of an update that was received is still set")
	}
	r.Send("begin", history.Payload{})
	timed("direct", time.Second) // a wait takes it at once
	r.result()
	want := map[string]string{"late": "rejected pawl.expired", "past": "rejected pawl.expired", "early": "in time", "direct": "in time"}
	if got := answers(r.History); len(got) != len(want) || got["late"] != want["late"] || got["past"] != want["past"] || got["early"] != want["early"] || got["direct"] != want["direct"] {
		t.Errorf("answered %v", got)
	}
}

func TestUpdateThatDoesNotDecodeIsRejected(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		if _, err := approve.Next(ctx).Get(ctx); !errors.Is(err, pawl.ErrUndecodable) {
			t.Errorf("received with %v", err)
		}
		return "", nil
	}, pawl.None{})
	r.Feed(&history.UpdateReceived{Name: approve.Name(), UpdateID: "a", Payload: history.Payload{Type: history.TypeJSON, Data: []byte("{")}})
	r.result()
	if got := answers(r.History); got["a"] != "rejected "+history.CodeUndecodable {
		t.Errorf("answered %v", got)
	}
}

// A validator is code of the author that runs outside of a step.
func TestFailingValidatorDoesNotFailTheInstance(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		err := approve.Validate(ctx, func(in string) error {
			switch in {
			case "poor":
				return errPoor
			case "panic":
				panic("no")
			case "exit":
				runtime.Goexit()
			case "misuse":
				return approve.Validate(ctx, nil)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		u, err := approve.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		return u.Input, u.Answer(ctx, "done")
	}, pawl.None{})
	for in, code := range map[string]string{"poor": "poor", "panic": history.CodePanic, "exit": history.CodePanic, "misuse": ""} {
		u := &history.UpdateReceived{Name: approve.Name(), UpdateID: in, Payload: must(author.Input(approve).Encode(in))}
		if f := r.X.Validate(u); f == nil || f.Code != code {
			t.Errorf("%s was rejected with %v", in, f)
		}
	}
	u := &history.UpdateReceived{Name: approve.Name(), UpdateID: "ok", Payload: must(author.Input(approve).Encode("ok"))}
	if f := r.X.Validate(u); f != nil {
		t.Errorf("rejected with %v", f)
	}
	r.Feed(u)
	if got := r.result(); got != "ok" {
		t.Error(got)
	}
}

func TestQueryReadsTheStateAndMakesNoDecision(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, stock int) (string, error) {
		err := remaining.Handle(ctx, func(of int) (int, error) {
			if of < 0 {
				return 0, errors.Join(errPoor, pawl.Sleep(ctx, time.Hour))
			}
			return stock - of, nil
		})
		if err != nil {
			return "", err
		}
		for {
			u, err := approve.Next(ctx).Get(ctx)
			if err != nil {
				return "", err
			}
			stock--
			if err := u.Answer(ctx, ""); err != nil || stock == 0 {
				return "sold", err
			}
		}
	}, 2)
	request(r.Driver, "a", "")
	readState := func(of int) (int, *history.Failure) {
		before := slices.Clone(r.History)
		p, f, found := r.X.Query(remaining.Name(), must(author.Input(remaining).Encode(of)))
		if !found || len(r.History) != len(before) || len(r.X.Take()) != 0 {
			t.Errorf("the query was found: %v, or it made a decision", found)
		}
		if f != nil {
			return 0, f
		}
		return must(author.Result(remaining).Decode(p)), nil
	}
	if n, f := readState(0); n != 1 || f != nil {
		t.Errorf("%d are left, %v", n, f)
	}
	if _, f := readState(-1); f == nil || f.Code != "poor" {
		t.Errorf("a query that waits: %v", f)
	}
	if _, _, found := r.X.Query("unknown", history.Payload{}); found {
		t.Error("an unknown query was found")
	}
	request(r.Driver, "b", "")
	r.result()
	if n, f := readState(0); n != 0 || f != nil {
		t.Errorf("after the end %d are left, %v", n, f)
	}
}
