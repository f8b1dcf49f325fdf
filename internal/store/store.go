// Package store keeps instances in Redis: their records, histories, inboxes and wakeups. Only its scripts write to a partition, except
// for the scripts of workers (package lease) and of the ownership itself (package partition).
//
// # Fences
//
// Every script receives the owner's token and is rejected if another process owns the partition. Ingest states the position from which
// it continues; a commit states the head that it expects and the ids of the inputs that it consumes. So a store that was rolled back
// during a tenure rejects everything that was decided on lost state:
//
//	ingest      applied = prev?  ──yes──▶ push to inboxes, applied = next      (otherwise CONFLICT)
//	commit      head = expected? inbox begins with the ids? ──yes──▶ the whole turn, and the beginning
//	                                                                of the next execution (otherwise CONFLICT)
//	reconcile   head = expected? ──yes──▶ leases repaired, next wakeup set     (otherwise CONFLICT)
//
// Each of them ends by setting the next wakeup according to the inbox at that time. The owner may set an earlier wakeup on its own; only
// the store can determine that none is needed.
//
// The record of an instance contains the watermark of its outbox: a commit advances the last event that produced a message, and the
// next write after the publication advances the last event whose messages are published. A reconciliation does not change the head, so
// nothing would detect that Redis lost one; therefore an owner repeats the watermark with every write.
//
// A lost reply leaves the outcome open: ingest and commit detect their own earlier success, and the other scripts can be repeated.
package store

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

//go:embed ingest.lua
var ingestLua string

//go:embed commit.lua
var commitLua string

//go:embed reconcile.lua
var reconcileLua string

//go:embed due.lua
var dueLua string

//go:embed wakeups.lua
var wakeupsLua string

//go:embed purge.lua
var purgeLua string

//go:embed rewind.lua
var rewindLua string

//go:embed unread.lua
var unreadLua string

// Bounds of message ids and of read batches.
const (
	seenCount    = 10_000         // message ids that are kept per instance
	seenSpan     = 60 * 60 * 1000 // how long message ids are kept, ms
	historyChunk = 5_000          // events per read
)

// Reader reads one namespace. It never writes, and is safe for concurrent use.
type Reader struct {
	run   *redisx.Runner
	space redisx.Space

	unread, wakeups *redisx.Script
}

// NewReader returns a reader. The caller closes the runner.
func NewReader(run *redisx.Runner, space redisx.Space) *Reader {
	return &Reader{
		run: run, space: space,
		unread: redisx.NewScript("unread", "", unreadLua,
			"inbox",
			"max_elements# max_bytes#"),
		wakeups: redisx.NewScript("wakeups", "", wakeupsLua,
			"wakeups",
			"within#"),
	}
}

// Store reads and writes one namespace. It is safe for concurrent use.
type Store struct {
	Reader

	ingest, commit, reconcile, due, refuse, purge, wipe, cancelled, rewind *redisx.Script
}

// New returns a store. The caller closes the runner.
func New(run *redisx.Runner, space redisx.Space) *Store {
	return &Store{
		Reader: *NewReader(run, space),
		ingest: redisx.NewScript("ingest", "", ingestLua,
			"partition wakeups early | to(record inbox ids)*",
			"token from_seq from_time to_seq to_time max_inbox# max_ids# span max_inbox_bytes# max_early# max_all_early# seal | message(instance id kind element)*"),
		commit: redisx.NewScript("commit", "", commitLua,
			"partition wakeups record inbox history stalled stalled_set | status=moved* early=dropped* pruned=prune* created=create* index=move* updates=answer* deleted*",
			"token instance head new_head wakeup new_incarnation max_unread# max_bytes# due applied | pop* event* create(effect proof claim)* field* prepend* move(score member)* answer(update body)* moved# dropped# prune# release*"),
		reconcile: redisx.NewScript("reconcile", "", reconcileLua,
			"partition wakeups record inbox stalled stalled_set | key*",
			"token instance head wakeup deferral reason max_claims# published | lease(effect proof)*"),
		due: redisx.NewScript("due", "", dueLua,
			"partition wakeups limits",
			"token max#"),
		refuse: redisx.NewScript("refuse", "", refuseLua,
			"partition refused",
			"token max# span# | entry* gone*"),
		purge: redisx.NewScript("purge", "", purgeLua,
			"partition wakeups record inbox stalled stalled_set index orchestrations updates unanswered | value=field* data*",
			"token instance head applied | field* pop*"),
		rewind: redisx.NewScript("rewind", "", rewindLua,
			"partition wakeups record inbox history next_history next_reports stalled stalled_set from_index to_index pruned pruned_reports | index=move* deleted*",
			"token instance head new_head keep# read# | move* result(place id)* prepend* release* field*"),
		wipe: redisx.NewScript("wipe", "", wipeLua,
			"partition wakeups inbox ids stalled early orchestrations | index=set* data*",
			"token instance place# purge | set*"),
		cancelled: redisx.NewScript("cancelled", "", cancelledLua,
			"cancelled",
			"span# max# | mark*"),
	}
}

// Tenure identifies a partition and the token with which its owner writes.
type Tenure struct {
	Part   int
	Token  string
	Secret string // secret of the partition, see proof.go
}

// Ingest moves a batch into the inboxes and the position from prev to next, or writes nothing. A nil answer without an error means that
// the batch was already ingested.
func (s *Store) Ingest(t Tenure, prev, next history.Position, batch []record.Message, done func(now int64, answer []record.Ingested, err error)) {
	p := s.space.Part(t.Part)
	keys := make([]string, 0, 3+3*len(batch))
	keys = append(keys, p.Owner(), p.Wakeups(), p.Early())
	args := make([]any, 0, 11+4*len(batch))
	args = append(args, t.Token, num(prev.Seq), num(prev.Time), num(next.Seq), num(next.Time), record.InboxBound, seenCount, seenSpan,
		record.InboxBytes, record.EarlyBytes, record.EarlyTotalBytes, t.Seal())
	for _, m := range batch {
		ids := p.Seen(m.Instance)
		if m.Kind == record.UpdateMessage {
			ids = p.Updates(m.Instance)
		}
		keys = append(keys, p.Instance(m.Instance), p.Inbox(m.Instance), ids)
		args = append(args, m.Instance, m.ID, string(m.Kind), m.Element)
	}
	s.run.Go(redisx.Call{Script: s.ingest, Keys: keys, Args: args, Join: true}, func(v any, err error) {
		if err != nil {
			done(0, nil, err)
			return
		}
		r := redisx.NewReply(v)
		switch r.Str(0) {
		case "OK":
			answer, bad := parseIngested(r.Strs(2))
			done(r.Int(1), answer, errors.Join(bad, r.Err()))
		case "DONE":
			done(r.Int(1), nil, r.Err())
		default:
			done(0, nil, replyError("ingest", r))
		}
	})
}

func parseIngested(reply []string) ([]record.Ingested, error) {
	out := make([]record.Ingested, len(reply))
	for i, s := range reply {
		switch s {
		case "d":
			out[i].Repeat = true
		case "f":
			out[i].Full = true
		case "o":
			out[i].Early = true
		case "u":
			out[i].Unknown = true
		default:
			n, err := strconv.Atoi(s[min(1, len(s)):])
			if err != nil {
				return nil, fmt.Errorf("%w: ingest replied %q", redisx.ErrReply, s)
			}
			out[i].Exists, out[i].Unread = s[0] == 'e', n
		}
	}
	return out, nil
}

// Due returns up to limit instances and up to limit limits that are due, and postpones the wakeup of each by two seconds.
func (s *Store) Due(t Tenure, limit int, done func(record.DueSet, error)) {
	p := s.space.Part(t.Part)
	s.run.Go(redisx.Call{Script: s.due, Keys: []string{p.Owner(), p.Wakeups(), p.Limits()}, Args: []any{t.Token, limit}, Join: true}, func(v any, err error) {
		r, err := okReply("due", v, err)
		if err != nil {
			done(record.DueSet{}, err)
			return
		}
		due := record.DueSet{Now: r.Int(1), Instances: r.Strs(2), Next: r.Int(3), Limits: r.Strs(4), NextLimit: r.Int(5)}
		done(due, r.Err())
	})
}

// okReply returns the reply to a script if it is OK, and otherwise the error that it reports.
func okReply(script string, v any, err error) (*redisx.Reply, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script, err)
	}
	r := redisx.NewReply(v)
	if r.Str(0) != "OK" {
		return nil, replyError(script, r)
	}
	return r, nil
}

// replyError returns the error for a reply that is not OK.
func replyError(script string, r *redisx.Reply) error {
	switch word := r.Str(0); word {
	case "FENCED":
		return fmt.Errorf("%s: %w", script, record.ErrFenced)
	case "ROLLEDBACK":
		return fmt.Errorf("%s: %w", script, record.ErrRolledBack)
	case "CONFLICT":
		what := make([]string, 0, 2)
		for i := 1; i < r.Len(); i++ {
			what = append(what, r.Str(i))
		}
		return fmt.Errorf("%s (%s): %w", script, strings.Join(what, " "), record.ErrConflict)
	default:
		return fmt.Errorf("%s: %w: %q", script, redisx.ErrReply, word)
	}
}

// num formats a number. Values of type uint64 must be below 2^63.
func num[T ~int64 | ~uint64](n T) string { return strconv.FormatInt(int64(n), 10) }
