package transport

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/message"
)

func TestLimitNoticesArriveInOrderAndMalformedOnesAreCounted(t *testing.T) {
	c := newHarness(t).open(Options{})
	got := make(chan []message.LimitNotice, 9)
	s, err := c.OnLimitNotices(3, func(ws []message.LimitNotice) { got <- ws })
	stop(t, s, err)
	for _, nonsense := range []string{"", "hello", "\x92\x02\x90"} {
		ok(t, c.nc.Publish("pawl.default.limit.3", []byte(nonsense)))
	}
	want := []message.LimitNotice{{Limit: "charge/acme", Member: "t a 1.2", At: 7}, {Limit: "charge", Member: "v c -"}, {Limit: "nap"}}
	ok(t, c.SendLimitNotices(2, []message.LimitNotice{{Limit: "elsewhere"}}))
	ok(t, c.SendLimitNotices(3, want))
	if ws := get(t, got, "notices"); !reflect.DeepEqual(ws, want) {
		t.Errorf("%+v", ws)
	}
	if n := c.Stats().Ignored; n != 3 {
		t.Errorf("ignored %d", n)
	}
}

func TestManyLimitNoticesAreSentInSeveralMessages(t *testing.T) {
	c := newHarness(t).open(Options{})
	got := make(chan []message.LimitNotice, 99)
	s, err := c.OnLimitNotices(0, func(ws []message.LimitNotice) { got <- ws })
	stop(t, s, err)
	ws := make([]message.LimitNotice, 10_000)
	for i := range ws {
		ws[i] = message.LimitNotice{Limit: "charge", Member: fmt.Sprintf("%022d instance-%d 1.2", i, i)}
	}
	ok(t, c.SendLimitNotices(0, ws))
	for n := 0; n < len(ws); {
		for _, w := range get(t, got, "notices") {
			if w != ws[n] {
				t.Fatalf("notice %d is %+v", n, w)
			}
			n++
		}
	}
}

func TestLevelIsAnActionAGroupOrGlobal(t *testing.T) {
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
