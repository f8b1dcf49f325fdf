package core

import (
	"testing"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestNoticeMatchesTheEntryInTheHistory(t *testing.T) {
	for what, c := range map[string]struct {
		since  int64
		notice LimitNotice
		want   bool
	}{
		"sent after the entry":                                       {since: 10, notice: LimitNotice{At: 11}, want: true},
		"sent before the entry":                                      {since: 10, notice: LimitNotice{At: 9}},
		"sent in the same millisecond":                               {since: 10, notice: LimitNotice{At: 10}},
		"sent when the limit had not answered":                       {since: 0, notice: LimitNotice{At: 11}},
		"requested, also if the clock of the limit has stepped back": {since: 10, notice: LimitNotice{At: 3, Requested: true, Since: 10}, want: true},
		"requested, of a limit that had not answered":                {since: 0, notice: LimitNotice{At: 3, Requested: true}, want: true},
		"requested, before it entered again":                         {since: 10, notice: LimitNotice{At: 30, Requested: true, Since: 5}},
	} {
		k := fold.Ticket{Limit: &history.Limit{WaitingSince: c.since}}
		if got := c.notice.concerns(k); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
