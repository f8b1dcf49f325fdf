package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

// price has no exported field: JSON is its only encoding.
type price struct{ cents int64 }

func (p price) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `"%d ct"`, p.cents), nil }

func (p *price) UnmarshalJSON(b []byte) error {
	_, err := fmt.Sscanf(strings.Trim(string(b), `"`), "%d ct", &p.cents)
	return err
}

type secret struct{ text string }

func (secret) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

type wrapped[T any] struct{ Value T }

type priced struct {
	Price  price            `json:"price"`
	Old    *price           `json:"old"`
	Tiers  []price          `json:"tiers"`
	By     map[string]price `json:"by"`
	Either wrapped[price]   `json:"either"`
	*Details
}

// Details is embedded, and may be nil.
type Details struct{ Note string }

// A payload type that would silently lose its value, because it has only MarshalJSON.
func TestTypeWithJSONMethodsSurvivesEncoding(t *testing.T) {
	want := priced{
		Price: price{1}, Old: &price{2}, Tiers: []price{{3}, {4}}, By: map[string]price{"a": {5}}, Either: wrapped[price]{price{6}},
	}
	event := pawl.NewEvent[priced]("priced")
	if got := must(author.Value(event).Decode(must(author.Value(event).Encode(want)))); !reflect.DeepEqual(got, want) {
		t.Errorf("event: %+v", got)
	}
	status := pawl.NewStatus[priced]()
	if got := must(author.Value(status).Decode(must(author.Value(status).Encode(want)))); !reflect.DeepEqual(got, want) {
		t.Errorf("status: %+v", got)
	}
	raise := pawl.NewActivity[priced, price]("raise")
	r := orchestrate(t, func(ctx *pawl.Context, in priced) (price, error) {
		if !reflect.DeepEqual(in, want) {
			return price{}, fmt.Errorf("input %+v", in)
		}
		p, err := raise.Call(ctx, in)
		if err != nil {
			return p, err
		}
		return pawl.SideEffect(ctx, func() (price, error) { return price{p.cents + 1}, nil })
	}, want)
	answer(r.Driver, raise, price{7})
	if got := r.result(); got != (price{8}) {
		t.Errorf("result %+v", got)
	}
	var err error = &pawl.Failure{Failure: *author.ToFailure(pawl.WithData(errors.New("too dear"), &want))}
	var f *pawl.Failure
	var got *priced
	if !errors.As(err, &f) || f.DecodeData(&got) != nil || !reflect.DeepEqual(got, &want) {
		t.Errorf("data of a failure: %+v", got)
	}
}

func TestTypeThatCannotBeAPayloadIsRejectedByItsHandle(t *testing.T) {
	in := pawl.NewActivity[secret, int]("a")
	out := pawl.NewActivity[int, []secret]("a")
	parent := pawl.NewOrchestration[wrapped[secret], int]("o")
	child := pawl.NewOrchestration[int, *secret]("o")
	event := pawl.NewEvent[map[string]secret]("e")
	status := pawl.NewStatus[secret]()
	errs := map[string]error{}
	_, errs["activity input"] = author.Input(in).Encode(secret{"x"})
	_, errs["activity result"] = author.Input(out).Encode(1)
	_, errs["orchestration input"] = author.Input(parent).Encode(wrapped[secret]{})
	_, errs["orchestration result"] = author.Input(child).Encode(1)
	_, errs["event"] = author.Value(event).Encode(nil)
	_, errs["status"] = author.Value(status).Encode(secret{})
	_, errs["event, decoded"] = author.Value(event).Decode(history.Payload{Type: history.TypeJSON, Data: []byte("{}")})
	_, errs["registry"] = author.NewRegistry(out.Do(func(context.Context, int) ([]secret, error) { return nil, nil }))
	_, errs["orchestration in a registry"] = author.NewRegistry(child.Do(func(*pawl.Context, int) (*secret, error) { return nil, nil }))
	orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		_, errs["call"] = in.Call(ctx, secret{})
		_, errs["child"] = child.Call(ctx, 1)
		_, errs["receive"] = event.Receive(ctx)
		_, _, errs["try to receive"] = event.TryReceive(ctx)
		errs["send"] = event.Send(ctx, "i", nil)
		errs["set"] = status.Set(ctx, secret{})
		_, errs["side effect"] = pawl.SideEffect(ctx, func() (secret, error) { return secret{"x"}, nil })
		errs["data"] = pawl.WithData(errors.New("e"), secret{})
		return pawl.None{}, nil
	}, pawl.None{}).result()
	for what, err := range errs {
		if !errors.Is(err, pawl.ErrUnencodable) || !strings.Contains(err.Error(), "secret has MarshalJSON and no UnmarshalJSON") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A value that encodes but would never decode.
func TestValueThatWouldChangeIsRejectedAtTheCall(t *testing.T) {
	loose := pawl.NewActivity[loosely, float64]("loose")
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		for part, v := range map[string]any{
			`pawl_test.loosely.Any: a map[int]string in an any`: map[int]string{1: "a"},
			`.Any["n"]: the integer 9007199254740993`:           map[string]any{"n": 1<<53 + 1},
			`.Any[0]: JSON has no NaN`:                          []float64{math.NaN()},
			`.Any: the text "\xff" is not UTF-8`:                "\xff",
		} {
			if _, err := loose.Call(ctx, loosely{v}); !errors.Is(err, pawl.ErrUnencodable) || !strings.Contains(err.Error(), part) {
				return "", fmt.Errorf("want %s: %w", part, err)
			}
		}
		_, err := loose.Call(ctx, loosely{})
		return fmt.Sprint(errors.Is(err, pawl.ErrUnencodable)), nil
	}, pawl.None{})
	_, f := author.ActivityOf(loose.Do(func(context.Context, loosely) (float64, error) { return math.Inf(1), nil })).Handle(t.Context(), must(author.Input(loose).Encode(loosely{})))
	if f == nil || f.Code != history.CodeUnencodable || !f.Permanent || !strings.Contains(f.Message, "JSON has no +Inf") {
		t.Fatalf("%+v", f)
	}
	r.Fail(r.Only("loose"), *f)
	if got := r.result(); got != "true" {
		t.Error("the sentinel does not survive history")
	}
}

type loosely struct{ Any any }

func TestNumbersInAnAnyDecodeAsFloats(t *testing.T) {
	open := pawl.NewEvent[map[string]any]("e")
	for _, p := range []history.Payload{
		must(author.Value(open).Encode(map[string]any{"n": int8(3), "d": json.Number("2.5")})),
		{Type: history.TypeJSON, Data: []byte(`{"n":3,"d":2.5}`)},
	} {
		if got := must(author.Value(open).Decode(p)); got["n"] != 3.0 || got["d"] != 2.5 {
			t.Errorf("%s: %#v", p.Data, got)
		}
	}
}

func TestErrorOfAMarshalerIsInTheErrorOfTheCall(t *testing.T) {
	_, err := author.Value(pawl.NewEvent[failing]("e")).Encode(failing{})
	if !errors.Is(err, errFailing) || !errors.Is(err, pawl.ErrUnencodable) {
		t.Error(err)
	}
}

var errFailing = errors.New("no encoding today")

type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errFailing }
func (*failing) UnmarshalJSON([]byte) error  { return nil }
