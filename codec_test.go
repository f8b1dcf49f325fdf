package pawl_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

type everything struct {
	Text    string            `json:"text"`
	Other   string            `json:"o"`
	Omitted *int              `json:"omitted,omitempty"`
	Secret  string            `json:"-"`
	When    time.Time         `json:"when"`
	For     time.Duration     `json:"for"`
	Bytes   []byte            `json:"bytes"`
	Floats  []float64         `json:"floats"`
	Labels  map[string]string `json:"labels"`
	Deep    map[int]map[string]int64
	Any     any
	Nested  []everything
	hidden  int
}

func example(depth int) everything {
	e := everything{
		Text: "äöü", Other: strings.Repeat("long ", 100), When: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), For: -time.Hour,
		Bytes: bytes.Repeat([]byte{0xff}, 70_000), Floats: []float64{1.5, -2}, Labels: map[string]string{},
		Deep: map[int]map[string]int64{}, Any: map[string]any{"k": float64(-1), "a": []any{true, nil, "x"}},
	}
	for i := range 40 {
		e.Labels[fmt.Sprint(i)] = "v"
		e.Deep[i*1000] = map[string]int64{"x": 1 << 40, "y": -1, "z": int64(i)}
	}
	if depth > 0 {
		e.Nested = []everything{example(depth - 1), {}}
	}
	return e
}

func TestValuesSurviveEncoding(t *testing.T) {
	h := pawl.NewEvent[everything]("e")
	want := example(2)
	want.Secret, want.hidden = "never sent", 7
	got := must(author.Value(h).Decode(must(author.Value(h).Encode(want))))
	want.Secret, want.hidden = "", 0
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(everything{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestEqualMapsEncodeToEqualBytes(t *testing.T) {
	h := pawl.NewEvent[everything]("e")
	first := must(author.Value(h).Encode(example(1)))
	for range 20 {
		if again := must(author.Value(h).Encode(example(1))); !bytes.Equal(first.Data, again.Data) {
			t.Fatal("equal values encode to different bytes")
		}
	}
}

func TestMapsOfAnyKindAreInKeyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.MapOf(rapid.Int64(), rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Float32()))).Draw(rt, "map")
		h := pawl.NewEvent[map[int64]map[string][]float32]("e")
		p := must(author.Value(h).Encode(m))
		for range 3 {
			if !bytes.Equal(p.Data, must(author.Value(h).Encode(m)).Data) {
				rt.Fatal("equal maps encode to different bytes")
			}
		}
		back := must(author.Value(h).Decode(p))
		if len(back) != len(m) {
			rt.Fatalf("%d entries decoded, want %d", len(back), len(m))
		}
		for k, v := range m {
			if len(back[k]) != len(v) {
				rt.Fatalf("entry %d decodes as %v", k, back[k])
			}
		}
	})
}

func TestJSONOfAnotherClientDecodes(t *testing.T) {
	got := must(author.Value(Approved).Decode(history.Payload{Type: history.TypeJSON, Data: []byte(`{"by":"finance"}`)}))
	if got.By != "finance" {
		t.Fatalf("got %+v", got)
	}
}

func TestNoneEncodesToAnEmptyPayloadAndDecodesAny(t *testing.T) {
	h := pawl.NewEvent[pawl.None]("e")
	if p := must(author.Value(h).Encode(pawl.None{})); p.Type != "" || p.Data != nil {
		t.Fatalf("None is %+v", p)
	}
	for _, p := range []history.Payload{{}, {Type: history.TypeJSON, Data: []byte(`{"a":`)}, {Type: "image/png", Data: []byte{1}}} {
		if _, err := author.Value(h).Decode(p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDecodeErrorNamesTheType(t *testing.T) {
	for name, p := range map[string]history.Payload{
		"empty":        {},
		"broken json":  {Type: history.TypeJSON, Data: []byte(`{"by":`)},
		"other json":   {Type: history.TypeJSON, Data: []byte(`[1]`)},
		"not UTF-8":    {Type: history.TypeJSON, Data: []byte("{\"by\":\"\xff\"}")},
		"too long":     {Type: history.TypeJSON, Data: []byte(`{}{}`)},
		"msgpack":      {Type: "application/msgpack", Data: []byte{0x80}},
		"unknown type": {Type: "image/png", Data: []byte{1}},
	} {
		_, err := author.Value(Approved).Decode(p)
		var f *pawl.Failure
		if !errors.Is(err, pawl.ErrUndecodable) || !errors.As(err, &f) || !f.Permanent || !strings.Contains(err.Error(), "pawl_test.Approval") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncodeErrorIsTheErrorOfTheCall(t *testing.T) {
	bad := pawl.NewActivity[chan int, pawl.None]("bad")
	big := pawl.NewActivity[[]byte, pawl.None]("big")
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		_, err := bad.Call(ctx, make(chan int))
		_, tooLarge := big.Call(ctx, make([]byte, 600<<10))
		if !errors.Is(tooLarge, pawl.ErrTooLarge) {
			return "", fmt.Errorf("too large: %w", tooLarge)
		}
		return err.Error(), nil
	}, pawl.None{})
	if got := r.result(); !strings.Contains(got, "encode chan int") {
		t.Fatalf("error %q", got)
	}
}

func TestUndecodableInputFailsTheInstance(t *testing.T) {
	r := orchestrate(t, func(*pawl.Context, Order) (string, error) { return "", nil }, order)
	r.Restart(author.Program(pawl.NewOrchestration[Order, string]("o").Do(func(*pawl.Context, Order) (string, error) { return "", nil })))
	r.Start(history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)})
	if err := r.failure(); !errors.Is(err, pawl.ErrUndecodable) || !strings.Contains(err.Error(), "pawl_test.Order") {
		t.Fatalf("failed with %v", err)
	}
}

func TestUndecodableEventIsAnErrorAndConsumed(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		_, received := Approved.Receive(ctx)
		if err := pawl.Sleep(ctx, time.Second); err != nil {
			return "", err
		}
		_, ok, tried := Approved.TryReceive(ctx)
		_, more, err := Approved.TryReceive(ctx)
		return fmt.Sprint(errors.Is(received, pawl.ErrUndecodable), ok, errors.Is(tried, pawl.ErrUndecodable), more), err
	}, pawl.None{})
	for range 2 {
		r.Send("approved", history.Payload{Type: history.TypeJSON, Data: []byte(`1`)})
	}
	r.Fire()
	r.Observe()
	if got := r.result(); got != "true true true false" {
		t.Fatalf("got %s", got)
	}
}
