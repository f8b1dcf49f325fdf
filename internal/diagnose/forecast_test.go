package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
)

func TestForecastNamesWhenTheLastWaiterIsAdmitted(t *testing.T) {
	two := client.Policy{Concurrency: 2}
	for name, x := range map[string]struct {
		q         client.QueueInfo
		perSecond float64
		want      string
	}{
		"no waiters":         {client.QueueInfo{Policy: two}, 3, ""},
		"not measured":       {client.QueueInfo{Waiting: 5, Policy: two}, 0, ""},
		"measured":           {client.QueueInfo{Waiting: 120, Policy: two}, 2, "The last of 120 waiters is admitted in about 1m"},
		"a rate":             {client.QueueInfo{Waiting: 101, Policy: client.Policy{Rate: 10, RateWindow: time.Second}}, 0, "The last of 101 waiters is admitted in about 10s"},
		"a rate and a limit": {client.QueueInfo{Waiting: 101, Policy: client.Policy{Concurrency: 5, Rate: 10, RateWindow: time.Second}}, 0, "in 10s at the earliest"},
		"longer than a wait": {client.QueueInfo{Waiting: 9, Policy: client.Policy{Concurrency: 1, QueueTimeout: time.Second}}, 1, "some will time out"},
		"a deadlock":         {client.QueueInfo{Waiting: 9, Deadlocked: true, Policy: two}, 9, "None is admitted"},
		"no end":             {client.QueueInfo{Waiting: 1 << 62, Policy: client.Policy{Quota: 1, QuotaWindow: time.Hour, QueueTimeout: -1}}, 0, "more than a year"},
	} {
		if got := diagnose.Forecast(x.q, x.perSecond); (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

func TestPreviewNamesWhatAPolicyChanges(t *testing.T) {
	now := client.QueueInfo{Waiting: 14, Active: 3, Policy: client.Policy{Concurrency: 3}}
	for name, x := range map[string]struct {
		next client.Policy
		want []string
	}{
		"raised":        {client.Policy{Concurrency: 5}, []string{"2 of 14 waiters are admitted at once"}},
		"lowered":       {client.Policy{Concurrency: 1}, []string{"none is stopped, and none is admitted until fewer than 1"}},
		"the same":      {client.Policy{Concurrency: 3}, []string{"14 waiters are admitted as holders end"}},
		"a rate":        {client.Policy{Rate: 1, RateWindow: time.Second}, []string{"Any number at a time, instead of 3", "over 13s at least"}},
		"no limit":      {client.Policy{}, []string{"14 waiters are admitted at once"}},
		"another key":   {client.Policy{Concurrency: 3, Key: "tenant"}, []string{"admitted as holders end", "by another key"}},
		"a full queue":  {client.Policy{Concurrency: 3, QueueLimit: 10, QueueTimeout: time.Minute}, []string{"admitted as holders", "until fewer than 10 wait", "for 1m at most"}},
		"without queue": {client.Policy{Concurrency: 3, Reject: true}, []string{"admitted as holders", "rejected at once"}},
	} {
		got := diagnose.Preview(now, x.next)
		if len(got) != len(x.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, want := range x.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", name, got[i], want)
			}
		}
	}
}
