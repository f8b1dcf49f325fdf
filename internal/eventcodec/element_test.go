package eventcodec_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestElementRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := eventcodec.Element{
			ID:   rapid.StringMatching(`[a-z][A-Za-z0-9_.-]{0,60}`).Draw(t, "id"),
			At:   rapid.Int64().Draw(t, "at"),
			Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		got, err := eventcodec.ParseElement(e.Encode())
		if err != nil || got.ID != e.ID || got.At != e.At || !bytes.Equal(got.Body, e.Body) {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
	})
}

func TestElementHasFormatOfAckScript(t *testing.T) {
	e := eventcodec.Element{ID: "aEFFECT.TOKEN", At: 1_790_000_000_000, Body: []byte("a\nb")}
	if got := string(e.Encode()); got != "aEFFECT.TOKEN\n1790000000000\na\nb" {
		t.Fatalf("%q", got)
	}
}

func TestEventOfElementHasItsTime(t *testing.T) {
	body, err := eventcodec.Encode(&history.ActivityCompleted{Scheduled: 7})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := eventcodec.Element{ID: "a", At: 42, Body: body}.Event()
	if err != nil || ev.Meta().At != 42 || ev.Meta().ID != 0 {
		t.Fatalf("%+v, %v", ev, err)
	}
}

func TestMalformedElementIsErrCorrupt(t *testing.T) {
	for _, b := range []string{"", "id", "id\n12", "\n12\nbody", "id\n1.79e+12\nbody", "id\n\nbody", "id\n99999999999999999999\nbody"} {
		if _, err := eventcodec.ParseElement([]byte(b)); !errors.Is(err, eventcodec.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
	}
	if _, err := (eventcodec.Element{ID: "a", Body: []byte("nonsense")}).Event(); !errors.Is(err, eventcodec.ErrCorrupt) {
		t.Errorf("body: %v", err)
	}
}

// The sequences of a recreated stream begin with 1.
func TestPositionIsComparedBySequenceAndTime(t *testing.T) {
	origin := history.Position{Seq: 100, Time: 5_000_000}
	for p, before := range map[history.Position]bool{
		{Seq: 99, Time: 5_000_000}: true,
		{Seq: 7, Time: 1_000_000}:  true,
		{Seq: 7, Time: 6_000_000}:  false, // in the recreated stream
		{Seq: 101, Time: 5}:        false, // clocks of servers differ
		{Seq: 100, Time: 5}:        false, // the origin
		{Time: 5}:                  false, // not a position in the stream
	} {
		if p.Before(origin) != before {
			t.Errorf("%+v is before %+v: got %t", p, origin, !before)
		}
	}
}
