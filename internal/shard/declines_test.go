package shard

import (
	"testing"
	"time"
)

func TestInstanceWithoutCodeAnywhereIsNotDeclinedAgain(t *testing.T) {
	var d declines
	now := time.Now()
	unregistered := reason{"order-1", "unregistered"}
	expect := func(what string, of reason, tenure string, want bool) {
		t.Helper()
		if got := d.allow(of, tenure, now); got != want {
			t.Errorf("%s: declines is %v", what, got)
		}
	}
	expect("first", unregistered, "t1", true)
	now = now.Add(time.Hour)
	expect("an hour later, in the same tenure", unregistered, "t1", true)
	expect("after its return", unregistered, "t2", false)
	expect("another instance", reason{"order-2", "unregistered"}, "t2", true)
	expect("another cause", reason{"order-1", "sealed"}, "t2", true)
	now = now.Add(firstDeclinePause - time.Second)
	expect("within the backoff", unregistered, "t2", false)
	now = now.Add(time.Second)
	expect("after the backoff", unregistered, "t2", true)
	expect("after its second return", unregistered, "t3", false)
	now = now.Add(firstDeclinePause)
	expect("within the doubled backoff", unregistered, "t3", false)
	now = now.Add(firstDeclinePause)
	expect("after the doubled backoff", unregistered, "t3", true)
	for range 20 {
		now = now.Add(time.Minute)
		d.allow(unregistered, now.String(), now)
	}
	now = now.Add(maxDeclinePause)
	expect("a day later", unregistered, d.all[unregistered].tenure, true)

	now = now.Add(3 * maxDeclinePause)
	d.allow(reason{"order-3", "sealed"}, "t9", now)
	if d.forget(now); len(d.all) != 1 {
		t.Errorf("%d reasons remain", len(d.all))
	}
}
