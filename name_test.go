package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
)

func TestInvalidIDsAreRejected(t *testing.T) {
	for _, id := range []string{"a", "order-42", "A:b@c=d+e~f%20_-9", "order.42", "a..b", strings.Repeat("x", 200)} {
		if err := pawl.ValidateID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", "a b", ".", "..", ".a", "a.", "a,b", "a*", "a>", "ä", "a/b", "a\x00", strings.Repeat("x", 201)} {
		err := pawl.ValidateID(id)
		var n *pawl.NameError
		if !errors.Is(err, pawl.ErrBadID) || !errors.As(err, &n) || n.Text != id {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestEscapeIDIsValidAndReversible(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(1, 20, 60).Draw(rt, "text")
		id := pawl.EscapeID(text)
		if err := pawl.ValidateID(id); err != nil {
			rt.Fatal(err)
		}
		if back, err := pawl.UnescapeID(id); err != nil || back != text {
			rt.Fatalf("%q decodes to %q, %v", text, back, err)
		}
	})
	for _, id := range []string{"order-42", "order.42", "a..b"} {
		if got := pawl.EscapeID(id); got != id {
			t.Fatalf("the valid id %q became %q", id, got)
		}
	}
	for _, id := range []string{"%", "a%2", "%g0", "%0g"} {
		if _, err := pawl.UnescapeID(id); !errors.Is(err, pawl.ErrBadID) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestInvalidNameIsTheErrorOfEveryUse(t *testing.T) {
	bad := pawl.NewActivity[int, int]("no spaces")
	badQueue := pawl.NewActivity[int, int]("fine", pawl.Queue("no>"))
	badEvent := pawl.NewEvent[int]("")
	badOrchestration := pawl.NewOrchestration[int, int](strings.Repeat("x", 101))
	_, a := author.Input(bad).Encode(1)
	_, q := author.Input(badQueue).Encode(1)
	_, e := author.Value(badEvent).Encode(1)
	_, o := author.Input(badOrchestration).Encode(1)
	var registered []error
	for _, b := range []pawl.Binding{bad.Do(nil), badQueue.Do(nil), badOrchestration.Do(nil)} {
		_, err := author.NewRegistry(b)
		registered = append(registered, err)
	}
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		_, call := bad.Call(ctx, 1)
		_, receive := badEvent.Receive(ctx)
		_, _, try := badEvent.TryReceive(ctx)
		registered = append(registered, call, receive, try)
		return pawl.None{}, nil
	}, pawl.None{})
	for i, err := range append(registered, a, q, e, o) {
		if !errors.Is(err, pawl.ErrBadName) {
			t.Errorf("use %d: %v", i, err)
		}
	}
	r.End()
}

func TestRegistryRejectsDuplicateNames(t *testing.T) {
	none := func(context.Context, int) (int, error) { return 0, nil }
	reserve := pawl.NewActivity[int, int]("reserve", pawl.Queue("stock"))
	release := pawl.NewActivity[int, int]("release", pawl.Queue("stock"))
	charge := pawl.NewActivity[int, int]("charge")
	orchestration := pawl.NewOrchestration[int, int]("charge").Do(func(*pawl.Context, int) (int, error) { return 0, nil })
	r, err := author.NewRegistry[pawl.Binding](reserve.Do(none), release.Do(none), charge.Do(none), orchestration)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Activities(), []string{"charge", "release", "reserve"}) ||
		!slices.Equal(r.Queues(), []string{"charge", "stock"}) || !slices.Equal(r.Orchestrations(), []string{"charge"}) {
		t.Fatalf("%v %v %v", r.Activities(), r.Queues(), r.Orchestrations())
	}
	if b, ok := r.Activity("release"); !ok || b.Queue != "stock" || b.Name != "release" {
		t.Fatalf("%+v", b)
	}
	if b, ok := r.Requested("charge", ""); !ok || b.Name != "charge" || b.Version != "" || b.Program == nil {
		t.Fatalf("%+v", b)
	}
	if _, ok := r.Activity("none"); ok {
		t.Fatal("an activity without a binding")
	}
	if _, err := author.NewRegistry[pawl.Binding](charge.Do(none), charge.Do(none), orchestration, orchestration); !errors.Is(err, pawl.ErrDuplicate) ||
		strings.Count(err.Error(), "bound twice") != 2 {
		t.Fatalf("duplicates: %v", err)
	}
}
