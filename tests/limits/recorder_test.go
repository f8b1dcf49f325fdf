package limits

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
)

// recorder records the entries and exits of activities, by room. It uses the same Redis as the fleet, under its own keys and without
// the limits, so that it counts independently.
type recorder struct {
	rdb redis.UniversalClient
}

// line is an entry or exit.
type line struct {
	What     string `json:"what"` // enter or leave
	Instance string `json:"instance"`
	Event    uint64 `json:"event"` // event that scheduled the activity
	Attempt  uint32 `json:"attempt"`
	Claim    uint32 `json:"claim"`
	Worker   string `json:"worker"`
	Inside   int    `json:"-"` // number of activities in the room, including this one
	At       int64  `json:"-"` // Redis time, ms
}

func lines(room string) string  { return "book:" + room }
func inside(room string) string { return "book:" + room + ":inside" }
func exits(room string) string  { return "book:" + room + ":exits" }
func opened(room string) string { return "book:" + room + ":open" }

// written counts and records in one step. An attempt that another worker runs again is counted once.
var written = redis.NewScript(`
local t = redis.call('TIME')
if ARGV[1] == 'enter' then redis.call('SADD', KEYS[2], ARGV[2]) end
local n = redis.call('SCARD', KEYS[2])
if ARGV[1] == 'leave' then redis.call('SREM', KEYS[2], ARGV[2]) end
return redis.call('RPUSH', KEYS[1], n .. ' ' .. string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)) .. ' ' .. ARGV[3])`)

func (b recorder) enter(ctx context.Context, room string, i pawl.ActivityInfo) error {
	return b.write(ctx, "enter", room, i)
}
func (b recorder) leave(ctx context.Context, room string, i pawl.ActivityInfo) error {
	return b.write(ctx, "leave", room, i)
}

func (b recorder) write(ctx context.Context, what, room string, i pawl.ActivityInfo) error {
	text, err := json.Marshal(line{What: what, Instance: i.Instance, Event: i.Activity, Attempt: i.Attempt, Claim: i.Claim, Worker: i.Worker})
	if err != nil {
		return err
	}
	return written.Run(ctx, b.rdb, []string{lines(room), inside(room)}, what, i.AttemptKey, text).Err()
}

// wait waits until the test releases an activity in the room, this instance, or all from now on.
func (b recorder) wait(ctx context.Context, room, instance string) error {
	for ctx.Err() == nil {
		if n, err := b.rdb.Exists(ctx, opened(room)).Result(); err != nil || n > 0 {
			return err
		}
		_, err := b.rdb.BLPop(ctx, time.Second, exits(room)+":"+instance, exits(room)).Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			return errors.Join(err, context.Cause(ctx))
		case b.rdb.Exists(ctx, opened(room)).Val() > 0:
			return b.rdb.RPush(ctx, exits(room), "the next").Err() // releases the next one
		default:
			return nil
		}
	}
	return context.Cause(ctx)
}

// read returns the lines of a room.
func (b recorder) read(t *testing.T, room string) []line {
	t.Helper()
	texts, err := b.rdb.LRange(context.Background(), lines(room), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make([]line, len(texts))
	for i, text := range texts {
		if all[i], err = parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func parse(text string) (l line, err error) {
	f := strings.SplitN(text, " ", 3)
	if len(f) != 3 {
		return l, errors.New("not a line: " + text)
	}
	n, err := strconv.Atoi(f[0])
	at, err2 := strconv.ParseInt(f[1], 10, 64)
	err = errors.Join(err, err2, json.Unmarshal([]byte(f[2]), &l))
	l.Inside, l.At = n, at
	return l, err
}

// entered returns the lines of entries.
func (b recorder) entered(t *testing.T, room string) []line {
	t.Helper()
	return slices.DeleteFunc(b.read(t, room), func(l line) bool { return l.What != "enter" })
}

// awaitEntries waits for n entries, and returns them.
func (a *harness) awaitEntries(room string, n int) (all []line) {
	a.Helper()
	poll.Until(a.T, within, strconv.Itoa(n)+" entries in "+room, func() bool {
		if got, err := a.recorder.rdb.LLen(a.ctx, lines(room)).Result(); err != nil || got < int64(n) {
			return false
		}
		all = a.recorder.entered(a.T, room)
		return len(all) >= n
	})
	return all
}

// release releases n activities in a room, in any order.
func (a *harness) release(room string, n int) {
	a.Helper()
	for range n {
		a.must(a.recorder.rdb.RPush(a.ctx, exits(room), "out").Err())
	}
}

// releaseAll releases every activity in a room from now on.
func (a *harness) releaseAll(room string) {
	a.Helper()
	a.must(a.recorder.rdb.Set(a.ctx, opened(room), 1, 0).Err())
	a.release(room, 1)
}

// wantMaxInside checks that the maximum number of activities in the room at a time was limit.
func (a *harness) wantMaxInside(room string, limit int) {
	a.Helper()
	maxInside := 0
	for _, l := range a.recorder.read(a.T, room) {
		maxInside = max(maxInside, l.Inside)
	}
	if maxInside != limit {
		a.Errorf("at most %d were in %s at a time, want %d", maxInside, room, limit)
	}
}

// sequence returns the instances of entries, in order.
func sequence(all []line) (instances []string) {
	for _, l := range all {
		instances = append(instances, l.Instance)
	}
	return instances
}
