package queue

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestWordsArriveInOrderWhereTheyAreSentAndNonsenseIsCounted(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan []Word, 9)
	s, err := c.OnWords(3, func(ws []Word) { got <- ws })
	stop(t, s, err)
	for _, nonsense := range []string{"", "hello", "\x92\x02\x90"} {
		ok(t, c.nc.Publish("pawl.default.word.3", []byte(nonsense)))
	}
	want := []Word{{Kind: WordGranted, Gate: "charge/acme", Member: "t a 1.2"}, {Kind: WordTimedOut, Gate: "charge", Member: "u b 1.2"}, {Kind: WordCleared, Gate: "charge", Member: "v c -"}, {Kind: WordLook, Gate: "nap"}, {Kind: 99, Gate: "later"}}
	ok(t, c.SendWords(2, []Word{{Kind: WordLook, Gate: "elsewhere"}}))
	ok(t, c.SendWords(3, want))
	if ws := get(t, got, "words"); !reflect.DeepEqual(ws, want) {
		t.Errorf("%+v", ws)
	}
	if n := c.Stats().Ignored; n != 3 {
		t.Errorf("ignored %d", n)
	}
}

func TestWordsForManyWaitersTravelInSeveralMessages(t *testing.T) {
	c := newStand(t).open(Options{})
	got := make(chan []Word, 99)
	s, err := c.OnWords(0, func(ws []Word) { got <- ws })
	stop(t, s, err)
	ws := make([]Word, 10_000)
	for i := range ws {
		ws[i] = Word{Kind: WordCleared, Gate: "charge", Member: fmt.Sprintf("%022d instance-%d 1.2", i, i)}
	}
	ok(t, c.SendWords(0, ws))
	for n := 0; n < len(ws); {
		for _, w := range get(t, got, "words") {
			if w != ws[n] {
				t.Fatalf("word %d is %+v", n, w)
			}
			n++
		}
	}
}

func TestALevelIsAnActionAGroupOrGlobal(t *testing.T) {
	for level, good := range map[string]bool{
		"global": true, "action:charge-card": true, "group:pay.ments": true,
		"": false, "charge-card": false, "action:": false, "action:a/b": false, "group:a b": false, "global:x": false, "Action:x": false, "action:a:b": false,
		strings.Repeat("x", 10_000): false,
	} {
		err := CheckLevel(level)
		if good != (err == nil) || err != nil && (!errors.Is(err, ErrBadName) || len(err.Error()) > 1000) {
			t.Errorf("%.50q: %v", level, err)
		}
	}
}
