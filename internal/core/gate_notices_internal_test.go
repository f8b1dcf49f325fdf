package core

import (
	"testing"

	"github.com/pawlrun/pawl/pkg/history"
)

func TestAWordIsAboutTheEntryThatTheHistoryTellsOf(t *testing.T) {
	for what, c := range map[string]struct {
		since  int64
		notice GateNotice
		want   bool
	}{
		"said after it came":                               {since: 10, notice: GateNotice{At: 11}, want: true},
		"said before it came":                              {since: 10, notice: GateNotice{At: 9}},
		"said in the same millisecond":                     {since: 10, notice: GateNotice{At: 10}},
		"said when the gate had not answered":              {since: 0, notice: GateNotice{At: 11}},
		"asked, also if the gate's clock has stepped back": {since: 10, notice: GateNotice{At: 3, Requested: true, Since: 10}, want: true},
		"asked, of a gate that had not answered":           {since: 0, notice: GateNotice{At: 3, Requested: true}, want: true},
		"asked, before it entered anew":                    {since: 10, notice: GateNotice{At: 30, Requested: true, Since: 5}},
	} {
		k := history.Ticket{Limit: &history.Limit{WaitingSince: c.since}}
		if got := c.notice.concerns(k); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
