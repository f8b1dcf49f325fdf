package pawl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/attribute"
)

// kept sets, reads and clears an attribute, and reports what it had at each step.
func kept[T string | bool | int | int64 | time.Time](ctx *pawl.Context, name string, v T) (string, error) {
	a := pawl.NewAttribute[T](name)
	none, before, err := a.Get(ctx)
	err = errors.Join(err, a.Set(ctx, v))
	got, set, err2 := a.Get(ctx)
	_, other, err3 := pawl.NewAttribute[otherKind](name).Get(ctx)
	err = errors.Join(err, err2, err3, a.Clear(ctx))
	_, cleared, err4 := a.Get(ctx)
	return fmt.Sprintf("%s: %v %t, %v %t, other kind %t, cleared %t", a.Name(), none, before, got, set, other, !cleared), errors.Join(err, err4)
}

// otherKind is an attribute kind that none of the stored attributes has.
type otherKind = int64

func TestAttributeIsReadAsItWasSetUntilItIsCleared(t *testing.T) {
	day := time.Date(2026, 11, 24, 3, 30, 0, int(7*time.Millisecond), time.UTC)
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) ([]string, error) {
		text, err1 := kept(ctx, "text", "a b")
		yes, err2 := kept(ctx, "yes", true)
		when, err3 := kept(ctx, "when", day)
		n := pawl.NewAttribute[int]("n")
		err := errors.Join(err1, err2, err3, n.Set(ctx, -7))
		small, ok, err4 := n.Get(ctx)
		large, alsoOK, err5 := pawl.NewAttribute[int64]("n").Get(ctx)
		return []string{text, yes, when, fmt.Sprint(small, ok, large, alsoOK)}, errors.Join(err, err4, err5)
	}, pawl.None{})
	want := []string{
		"text:  false, a b true, other kind false, cleared true", "yes: false false, true true, other kind false, cleared true",
		fmt.Sprintf("when: %v false, %v true, other kind false, cleared true", time.Time{}, day), "-7 true -7 true",
	}
	if got := fmt.Sprint(r.result()); got != fmt.Sprint(want) {
		t.Errorf("%s, want %s", got, want)
	}
	set, err := attribute.Parse(r.X.Attributes())
	if n, ok := set.Get("n"); err != nil || !ok || len(set) != 1 || n.Value != "-7" {
		t.Errorf("left are %+v, %v", set, err)
	}
}
