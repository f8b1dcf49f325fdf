package replay_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// randomStrand is a strand that acts at random and puts everything it has observed so far into every payload, so a replay that differs
// anywhere differs in what is recorded.
type randomStrand struct {
	x     *replay.Code
	rng   *rand.Rand
	in    *replay.Scope
	depth int
	seen  uint64
	kept  []*replay.Future
}

func randomProgram(seed uint64) replay.Program {
	return program(func(x *replay.Code) (string, error) {
		w := &randomStrand{x: x, rng: rand.New(rand.NewPCG(seed, 1))}
		return w.walk(12)
	})
}

func (w *randomStrand) walk(steps int) (string, error) {
	for range steps {
		if err := w.step(); err != nil && w.rng.IntN(4) == 0 {
			return "", err
		}
	}
	return fmt.Sprint(w.seen), nil
}

func (w *randomStrand) note(v string, err error) error {
	for _, b := range []byte(fmt.Sprint(v, err)) {
		w.seen = w.seen*31 + uint64(b)
	}
	return err
}

func (w *randomStrand) get(f *replay.Future) error { return w.note(get(w.x, f)) }

func (w *randomStrand) activity() *replay.Future {
	c := replay.Call{Activity: "a", Payload: text(fmt.Sprint(w.seen, w.x.NewID())), Scope: w.scope()}
	if w.rng.IntN(2) == 0 {
		c.Retry = replay.Retry{Attempts: 3, Initial: time.Duration(w.rng.IntN(2)) * time.Second, Factor: 2, Max: time.Minute}
	}
	if w.rng.IntN(3) == 0 {
		c.AttemptTimeout = 3 * time.Second
	}
	if w.rng.IntN(2) == 0 {
		c.KeepSlot, c.Declared = true, &history.Declared{Group: "g"}
	}
	if w.rng.IntN(3) == 0 {
		c.Within = 5 * time.Second
	}
	return w.x.Call(c)
}

func (w *randomStrand) child() *replay.Future {
	c := replay.Call{Child: &replay.Child{Name: "c", Abandon: w.rng.IntN(3) == 0}, Payload: text(fmt.Sprint(w.seen)), Scope: w.scope()}
	if w.rng.IntN(3) == 0 {
		c.Child.Instance = w.x.NewID()
	}
	if w.rng.IntN(3) == 0 {
		c.Within = 4 * time.Second
	}
	return w.x.Call(c)
}

// message sends a message to another instance, and does not wait.
func (w *randomStrand) message() error {
	p := text(fmt.Sprint(w.seen))
	switch w.rng.IntN(7) {
	case 5:
		p, err := w.x.CurrentStatus("")
		return w.note(string(p.Data), err)
	case 6:
		return w.note("", w.x.SetStatus("", history.Payload{}))
	case 0:
		return w.note("", w.x.Launch(replay.Child{Name: "l", Instance: w.x.NewID()}, p, w.scope()))
	case 1:
		return w.note("", w.x.Send("other", "e", p, w.scope()))
	case 2:
		return w.note(fmt.Sprint(w.x.Patched(fmt.Sprint("p", w.rng.IntN(4)))), nil)
	case 3:
		return w.note("", w.x.ContinueAsNew(p, "", w.scope()))
	default:
		return w.note("", w.x.SetStatus("", p))
	}
}

// scope returns the scope of the strand, and sometimes one that outlives it.
func (w *randomStrand) scope() *replay.Scope {
	if w.rng.IntN(5) > 0 {
		return w.in
	}
	return w.x.Detach(w.in, time.Duration(w.rng.IntN(3))*time.Second)
}

func (w *randomStrand) any() *replay.Future {
	switch w.rng.IntN(6) {
	case 0:
		return w.x.Timer(time.Duration(w.rng.IntN(5))*time.Second, w.scope())
	case 1:
		return w.x.Next(fmt.Sprint("e", w.rng.IntN(2)), w.scope())
	case 2:
		return w.child()
	default:
		return w.activity()
	}
}

func (w *randomStrand) step() error {
	switch w.rng.IntN(15) {
	case 14:
		if len(w.kept) > 0 {
			return w.note(fmt.Sprint(w.kept[w.rng.IntN(len(w.kept))].Ready()), nil)
		}
		return w.note("", w.x.Poll(w.scope()))
	case 0, 1:
		w.kept = append(w.kept, w.any())
		return nil
	case 2, 3:
		return w.get(w.any())
	case 4:
		return w.choose()
	case 5:
		if len(w.kept) > 0 {
			w.kept[w.rng.IntN(len(w.kept))].Withdraw(lostSelect, "withdrawn")
		}
		return nil
	case 6:
		p, ok, err := w.x.TryNext("e0", nil)
		return w.note(fmt.Sprint(string(p.Data), ok), err)
	case 7:
		return w.siblings()
	case 8:
		return w.scoped()
	case 9:
		mark := w.seen
		return w.note("", w.x.Await(func() bool { return w.seen != mark || w.seen%2 == 0 }, w.scope()))
	case 10:
		p, err := w.x.SideEffect(func() (history.Payload, *history.Failure) {
			if v := rand.Uint32(); v%4 > 0 { // differs on replay
				return text(fmt.Sprint(v)), nil
			}
			return history.Payload{}, &history.Failure{Message: fmt.Sprint(rand.Uint32())}
		}, w.scope())
		return w.note(string(p.Data), err)
	case 11, 12:
		return w.message()
	default:
		if len(w.kept) > 0 {
			return w.get(w.kept[w.rng.IntN(len(w.kept))])
		}
		return w.get(w.activity())
	}
}

func (w *randomStrand) choose() error {
	fs := []*replay.Future{w.any(), w.any()}
	for range min(len(w.kept), 2) {
		fs = append(fs, w.kept[w.rng.IntN(len(w.kept))])
	}
	winner, err := w.x.WaitAny(fs, nil)
	if err != nil {
		return w.note("", err)
	}
	if w.rng.IntN(3) > 0 {
		for _, f := range fs {
			if f != fs[winner] {
				f.Withdraw(lostSelect, "")
			}
		}
	}
	return w.note(fmt.Sprint(winner), w.get(fs[winner]))
}

func (w *randomStrand) scoped() error {
	if w.depth > 1 {
		return nil
	}
	outer := w.in
	w.in = w.x.Open(outer)
	w.depth++
	_, err := w.walk(4)
	w.x.Close(w.in)
	w.depth--
	w.in = outer
	return err
}

func (w *randomStrand) siblings() error {
	if w.depth > 1 {
		return nil
	}
	var fs []*replay.Future
	for range 1 + w.rng.IntN(3) {
		sub := &randomStrand{x: w.x, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2)), depth: w.depth + 1, kept: w.kept}
		fs = append(fs, w.x.Go(w.scope(), func(in *replay.Scope) {
			sub.in = in
			_, _ = sub.walk(4)
			w.seen = w.seen*31 + sub.seen
		}))
	}
	for _, f := range fs {
		if w.rng.IntN(4) == 0 {
			f.Withdraw(lostSelect, "sibling")
		}
		if err := w.x.Join(f); err != nil {
			return err
		}
	}
	return nil
}

// grant offers a grant, which is applied if the history has a waiter for it.
func grant(d *replaytest.Driver, event uint64) {
	if d.X.Ended() {
		return
	}
	state, _ := fold.Check(d.History)
	want := replay.DroppedLate
	if state.Waiting(event) {
		want = replay.Applied
	}
	if o, _ := d.Offer(&history.Granted{Scheduled: event}); o != want {
		panic(fmt.Sprintf("grant of event %d: %s, not %s:\n%s", event, o, want, replaytest.Text(d.History)))
	}
}

func TestReplayIsExactForRandomCodeAndInputs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drive(t, nil)
		driveRandom(rt, d)
		d.CheckReplay()
		d.CheckRecord()
	})
}

// driveRandom drives random code with random inputs.
func driveRandom(rt *rapid.T, d *replaytest.Driver) {
	d.Restart(randomProgram(rapid.Uint64().Draw(rt, "code")))
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "inputs"), 3))
	if rng.IntN(2) == 0 {
		d.Limit("test", rng.IntN(2) == 0)
	}
	d.Start(text("in"))
	for i := range 60 {
		if next, _ := d.X.Continued(); next != nil {
			d.Continue()
		}
		if d.X.Ended() {
			break
		}
		if rng.IntN(4) == 0 {
			d.Limit("a", rng.IntN(3) == 0)
		}
		d.Now += rng.Int64N(1000)
		if d.X.Polling() && rng.IntN(2) == 0 || rng.IntN(40) == 0 {
			d.Offer(&history.Observed{}) // even if the code does not poll
			continue
		}
		ids, children := d.X.Outstanding(), d.X.Children()
		_, _, timers := d.X.NextTimer()
		switch kind := rng.IntN(14); {
		case kind > 11:
			grant(d, 1+rng.Uint64N(uint64(len(d.History))))
			if len(ids) > 0 {
				grant(d, ids[rng.IntN(len(ids))])
			}
		case kind == 10 && len(children) > 0:
			d.CompleteChild(children[rng.IntN(len(children))], text(fmt.Sprint(rng.Uint32())))
		case kind == 11 && len(children) > 0:
			d.FailChild(children[rng.IntN(len(children))], history.Failure{Message: fmt.Sprint(rng.Uint32())})
		case kind < 5 && len(ids) > 0:
			d.Complete(ids[rng.IntN(len(ids))], text(fmt.Sprint(rng.Uint32())))
		case kind < 7 && len(ids) > 0:
			d.Fail(ids[rng.IntN(len(ids))], history.Failure{Message: fmt.Sprint(rng.Uint32()), Permanent: rng.IntN(3) == 0})
		case kind < 8 && timers:
			d.Fire()
		case kind == 8 && rng.IntN(15) == 0:
			d.Offer(&history.CancelRequested{By: "rapid", Text: fmt.Sprint(i)})
		default:
			d.Send(fmt.Sprint("e", rng.IntN(2)), text(fmt.Sprint(rng.Uint32())))
		}
	}
}
