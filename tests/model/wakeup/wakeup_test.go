package wakeup

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/tests/model/explore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var setups = map[string]Setup{
	"a start right behind events":          {Plan: []string{"a", "b", "start", "c"}, Show: 4},
	"a start between events, at a gate":    {Plan: []string{"a", "start", "b"}, Gate: true, Show: 4, Dues: 1},
	"an activity, events, few at a time":   {Plan: []string{"start", "a", "b"}, Activity: true, Show: 1},
	"an ingest is repeated":                {Plan: []string{"a", "start", "b"}, Show: 4, Resends: 1, Evicts: 1},
	"the code ends with inputs behind it":  {Plan: []string{"start", "a", "b"}, Activity: true, Ends: 2, Show: 2, Resends: 1},
	"the agenda and memory in the way":     {Plan: []string{"a", "start", "b"}, Activity: true, Show: 2, Dues: 2, Evicts: 1},
	"all of it":                            {Plan: []string{"a", "start", "b", "c"}, Gate: true, Activity: true, Ends: 4, Show: 2, Resends: 1, Dues: 1, Evicts: 1},
	"a repeated ingest while it is looked": {Plan: []string{"start", "a"}, Activity: true, Show: 2, Resends: 1, Dues: 2},
}

func TestNoInstanceSleepsOnUnreadInputs(t *testing.T) {
	t.Parallel()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := explore.Search(NewWorld(&setup), explore.Bound(t, 60_000))
			if found.Broken != "" {
				t.Error(found)
			}
			t.Logf("%d states, all: %v", found.States, found.Whole)
		})
	}
}

func TestEveryMistakeIsFound(t *testing.T) {
	t.Parallel()
	for _, wrong := range []Mistake{MissedDropped, ReadTrusted, RepeatDropped, LookTrusted, EarlyTrusted, LateDropped, BellDropped} {
		t.Run(string(wrong), func(t *testing.T) {
			t.Parallel()
			for _, setup := range setups {
				setup.Wrong = wrong
				if found := explore.Search(NewWorld(&setup), explore.Bound(t, 60_000)); found.Broken != "" {
					return
				}
			}
			t.Error("the search does not find it")
		})
	}
}
