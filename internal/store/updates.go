package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// UpdateAnswer reads the answer to an update; nil if the update is open or unknown. open is the position in INPUTS of an open update,
// zero if it is unknown; its time is that of the inbox element, in whole milliseconds.
func (s *Reader) UpdateAnswer(ctx context.Context, part int, instance, update string) (answer *eventcodec.UpdateAnswer, open history.Position, err error) {
	v, err := s.run.Do(ctx, redisx.Command("HGET", s.space.Part(part).Updates(instance), update))
	if v == nil || err != nil {
		if redisx.Refused(err) { // a key of another type: the answer is unknown
			err = nil
		}
		return nil, open, err
	}
	b, err := redisx.Str(v)
	if err != nil || b == "" || b[0] != 'a' {
		if p, bad := parseOrigin(strings.TrimPrefix(b, "o")); bad == nil {
			open = p
		}
		return nil, open, err
	}
	a, err := eventcodec.DecodeUpdateAnswer([]byte(b[1:]))
	if err != nil {
		return nil, open, fmt.Errorf("instance %s: answer to update %.100q: %w", instance, update, err)
	}
	return &a, open, nil
}

// readLedger adds the reads that count the open updates in the ledger of an instance, and that find updates which are open in its history
// and answered in the ledger.
func (c *checker) readLedger(round *readRound, x *instanceCheck) {
	if !x.ledger {
		return
	}
	key := c.reader.space.Part(x.part).Updates(x.id)
	round.add(redisx.Command("HMGET", key, "#", "#first"), func(v any, err error) error {
		r := redisx.NewReply([]any{v})
		counts := r.Strs(0)
		if err = errors.Join(err, r.Err()); err == nil && counts[0] != "" {
			var n, first int
			_, err = fmt.Sscan(counts[0], &n)
			if counts[1] != "" && err == nil {
				_, err = fmt.Sscan(counts[1], &first)
			}
			x.kept = 3 + 2*(n-first+1)
		}
		return x.noted(err)
	})
	round.add(redisx.Command("HLEN", key), func(v any, err error) error {
		n, ierr := redisx.Int(v)
		x.ledgerFields = int(n)
		return x.noted(errors.Join(err, ierr))
	})
	for _, u := range x.state.OpenUpdates() {
		round.add(redisx.Command("HGET", key, effectid.Update(u)), func(v any, err error) error {
			if v != nil {
				var b string
				if b, err = redisx.Str(v); err == nil && b != "" && b[0] == 'a' {
					x.violationf("update %d (%s) is open in the history, but answered in the ledger", u.ID, u.Name)
				}
			}
			return x.noted(err)
		})
	}
}

// updates finds lost updates: open in the ledger, but neither unread nor open in the history.
func (x *instanceCheck) updates() {
	rec := x.loaded.Record
	switch {
	case !x.ledger:
	case rec == nil && len(x.loaded.Unread) == 0:
		if x.ledgerFields > 0 {
			x.violationf("has a ledger of updates, but neither a record nor unread inputs")
		}
	case rec != nil && !rec.Status.Ended() && !rec.Replaced && len(x.loaded.Unread) < record.UnreadBatch:
		known := len(x.state.OpenUpdates())
		for _, b := range x.loaded.Unread {
			if el, err := eventcodec.ParseElement(b); err == nil {
				if ev, err := el.Event(); err == nil && ev.Kind() == history.KindUpdateReceived {
					known++
				}
			}
		}
		if open := x.ledgerFields - x.kept; open > known {
			x.violationf("%d updates are open in the ledger, but only %d are unread or open in the history", open, known)
		}
	}
}
