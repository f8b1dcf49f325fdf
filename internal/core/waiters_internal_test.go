package core

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
)

func TestClientThatStopsWaitingIsDropped(t *testing.T) {
	began := time.UnixMilli(1_790_000_000_000)
	o := New(Config{ReconcileInterval: time.Minute}, TenureStart{}, began)
	at := func(d time.Duration, m Message) {
		now := began.Add(d)
		if m.Kind == DueRead {
			m.Body = record.DueSet{Now: now.UnixMilli()}
		}
		o.Step(now, &m)
	}
	at(0, Message{Kind: EndAwaited, ID: "a", Body: "reply-a"})
	at(10*time.Second, Message{Kind: EndAwaited, ID: "b", Body: "reply-b"})
	at(20*time.Second, Message{Kind: DueRead})
	if o.commits.waiters.n != 1 || o.commits.waiters.take("b")[0] != "reply-b" {
		t.Errorf("after 20 s clients wait for %v", o.commits.waiters.byID)
	}
	at(21*time.Second, Message{Kind: StatusAwaited, ID: "c", Body: "reply-c"})
	at(60*time.Second, Message{Kind: DueRead})
	if n := o.commits.waiters.n + o.commits.watchers.n; n != 0 || len(o.commits.watchers.byID) != 0 {
		t.Errorf("after 60 s %d clients wait", n)
	}
}
