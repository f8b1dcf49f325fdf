package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestSendOrStartIsOneMessage(t *testing.T) {
	w, c := startOwner(t, Options{By: "me", RepeatInterval: time.Hour})
	fulfil, approved := contract()
	run, err := SendOrStart(soon(t), c, fulfil, "o-1", order{N: 7}, approved, order{N: 8}, MessageID("m-1"), Version("v2"), By("you"))
	ok(t, err)
	in := w.input(0)
	if in.Kind != message.KindStart || in.Name != "fulfil-order" || in.ID != "m-1" || in.Version != "v2" || in.By != "you" || in.Event == nil || in.Event.Name != "approved" {
		t.Fatalf("%+v", in)
	}
	o, err := author.Input(fulfil).Decode(in.Payload)
	e, err2 := author.Value(approved).Decode(in.Event.Payload)
	if err != nil || err2 != nil || o.N != 7 || e.N != 8 {
		t.Fatal(o, err, e, err2)
	}
	w.finish("o-1", result(t, "done"))
	if got, err := run.Result(soon(t)); err != nil || got != "done" {
		t.Fatal(got, err)
	}
	// An ended instance keeps its result.
	again, err := SendOrStart(soon(t), c, fulfil, "o-1", order{}, approved, order{})
	ok(t, err)
	if got, err := again.Result(soon(t)); err != nil || got != "done" {
		t.Fatal(got, err)
	}
}

func TestStartRequestsAVersion(t *testing.T) {
	w, c := startOwner(t, Options{})
	fulfil, _ := contract()
	_, err := Start(soon(t), c, fulfil, "o-1", order{}, Version("2026.11"))
	ok(t, err)
	_, err = Start(soon(t), c, fulfil, "o-2", order{})
	ok(t, err)
	got := map[string]string{}
	for n := range 2 {
		in := w.input(n)
		got[in.Instance] = in.Version
	}
	if got["o-1"] != "2026.11" || got["o-2"] != "" {
		t.Fatal(got)
	}
}

func TestOversizedStartFailsAtTheCall(t *testing.T) {
	_, c := startOwner(t, Options{})
	fulfil, approved := contract()
	full := history.Payload{Type: history.TypeJSON, Data: []byte(strings.Repeat("1", transport.MaxPayload))}
	bad := pawl.NewEvent[order]("not good")
	_, err := Start(soon(t), c, fulfil, "a", order{}, Version("v 1"))
	_, err2 := SendOrStart(soon(t), c, fulfil, "a,b", order{}, approved, order{})
	_, err3 := SendOrStart(soon(t), c, fulfil, "a", order{}, bad, order{})
	_, err4 := c.SendOrStartRaw(soon(t), "x", "a", full, "y", full)
	for i, k := range []struct{ err, want error }{
		{err, transport.ErrBadName}, {err2, pawl.ErrBadID}, {err3, pawl.ErrBadName}, {err4, transport.ErrTooLarge},
	} {
		if !errors.Is(k.err, k.want) {
			t.Errorf("%d: %v, want %v", i, k.err, k.want)
		}
	}
}

func TestVersionIsNotAnOptionOfSend(t *testing.T) {
	if _, ok := Version("v1").(Option); ok {
		t.Fatal("Send and Cancel would accept it")
	}
	for _, o := range []Option{By("me"), MessageID("m")} {
		if _, ok := o.(StartOption); !ok {
			t.Fatalf("Start would not accept %T", o)
		}
	}
}
