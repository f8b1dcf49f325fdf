package gates

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

// book has the entries of activities and their rooms. It is in the same Redis as everything else, under keys of its
// own, and has nothing of limits: what it counts is counted outside.
type book struct {
	rdb redis.UniversalClient
}

// line is what happened in a room.
type line struct {
	What     string `json:"what"` // enter or leave
	Instance string `json:"instance"`
	Event    uint64 `json:"event"` // of the schedule
	Attempt  uint32 `json:"attempt"`
	Claim    uint32 `json:"claim"`
	Worker   string `json:"worker"`
	Inside   int    `json:"-"` // how many were in the room then, this one included
	At       int64  `json:"-"` // Redis time, ms
}

func lines(room string) string  { return "book:" + room }
func inside(room string) string { return "book:" + room + ":inside" }
func exits(room string) string  { return "book:" + room + ":exits" }
func opened(room string) string { return "book:" + room + ":open" }

// written counts and writes in one step. An attempt that is run again, by another worker, is counted once.
var written = redis.NewScript(`
local t = redis.call('TIME')
if ARGV[1] == 'enter' then redis.call('SADD', KEYS[2], ARGV[2]) end
local n = redis.call('SCARD', KEYS[2])
if ARGV[1] == 'leave' then redis.call('SREM', KEYS[2], ARGV[2]) end
return redis.call('RPUSH', KEYS[1], n .. ' ' .. string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)) .. ' ' .. ARGV[3])`)

func (b book) enter(ctx context.Context, room string, i pawl.ActivityInfo) error {
	return b.write(ctx, "enter", room, i)
}
func (b book) leave(ctx context.Context, room string, i pawl.ActivityInfo) error {
	return b.write(ctx, "leave", room, i)
}

func (b book) write(ctx context.Context, what, room string, i pawl.ActivityInfo) error {
	text, err := json.Marshal(line{What: what, Instance: i.Instance, Event: i.Activity, Attempt: i.Attempt, Claim: i.Claim, Worker: i.Worker})
	if err != nil {
		return err
	}
	return written.Run(ctx, b.rdb, []string{lines(room), inside(room)}, what, i.AttemptKey, text).Err()
}

// wait ends when the test lets an activity out of the room, or this instance, or all from now on.
func (b book) wait(ctx context.Context, room, instance string) error {
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
			return b.rdb.RPush(ctx, exits(room), "the next").Err() // wakes the next
		default:
			return nil
		}
	}
	return context.Cause(ctx)
}

// read gives what has happened in a room.
func (b book) read(t *testing.T, room string) []line {
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
func (b book) entered(t *testing.T, room string) []line {
	t.Helper()
	return slices.DeleteFunc(b.read(t, room), func(l line) bool { return l.What != "enter" })
}

// until waits for n entries, and gives them.
func (a *arena) until(room string, n int) (all []line) {
	a.Helper()
	poll.Until(a.T, within, "so many have entered "+room, func() bool {
		if got, err := a.book.rdb.LLen(a.ctx, lines(room)).Result(); err != nil || got < int64(n) {
			return false
		}
		all = a.book.entered(a.T, room)
		return len(all) >= n
	})
	return all
}

// out lets so many activities out of a room, in any order.
func (a *arena) out(room string, n int) {
	a.Helper()
	for range n {
		a.must(a.book.rdb.RPush(a.ctx, exits(room), "out").Err())
	}
}

// open lets every activity out from now on.
func (a *arena) open(room string) {
	a.Helper()
	a.must(a.book.rdb.Set(a.ctx, opened(room), 1, 0).Err())
	a.out(room, 1)
}

// never demands that there were never more than so many in the room, and that there were as many.
func (a *arena) never(room string, limit int) {
	a.Helper()
	most := 0
	for _, l := range a.book.read(a.T, room) {
		most = max(most, l.Inside)
	}
	if most != limit {
		a.Errorf("at most %d were in %s at a time; the limit is %d", most, room, limit)
	}
}

// sequence names the entries by instance and attempt.
func sequence(all []line) (who []string) {
	for _, l := range all {
		who = append(who, l.Instance)
	}
	return who
}
