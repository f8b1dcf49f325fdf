package shard

import (
	"context"
	"testing"

	"github.com/pawlrun/pawl/internal/request"
)

func TestHealthIsReadForAllRequestsAlthoughTheFirstIsCancelled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	read := func(ctx context.Context) *request.StoreHealth {
		r := new(request.StoreHealth)
		if err := ctx.Err(); err != nil {
			r.RedisError = err.Error()
		}
		return r
	}
	if got := new(storeHealth).get(ctx, read); got.RedisError != "" {
		t.Errorf("the state of Redis is %q", got.RedisError)
	}
}

func TestStartAfterADelayedInstanceIsReadFromAnInboxOfAnyLength(t *testing.T) {
	for _, c := range []struct {
		at                 int
		delayed, truncated bool
		want               bool
	}{
		{at: -1, truncated: true, want: true},
		{at: -1, delayed: true, truncated: true},
		{at: 1, delayed: true},
		{at: 0, want: true},
		{at: -1},
	} {
		if got := mayBeUnread(c.at, c.delayed, c.truncated); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
