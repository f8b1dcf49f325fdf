// Package store keeps instances in Redis: their records, histories, inboxes and the
// agenda. Its scripts are the only writers of a partition besides the workers'
// (package lease) and the ownership itself (package partition).
//
// # Orders that matter
//
// Every script names the owner's token and is refused when somebody else owns the
// partition. Ingest names the position it continues from, a commit the head it
// expects and the ids of the inputs it consumes; so a store that was rolled back
// under a living owner refuses what was decided on forgotten ground:
//
//	ingest   applied = prev?  ──yes──▶ push to inboxes, applied = next      (else CONFLICT)
//	commit   head = expected? inbox begins with the ids? ──yes──▶ all of the turn, and the beginning
//	                                                             of the next execution (else CONFLICT)
//	look     head = expected? ──yes──▶ leases mended, next look set          (else CONFLICT)
//
// Every one ends by setting the next look, from what is then in the inbox. Memory
// may hurry a look; only the store says that there is none.
//
// What an instance owes others is two marks of its record, out and sent: a commit moves out, whoever writes next
// moves sent. A look leaves the head as it is; so an owner says what it knows to be sent with every write, and not once:
// a store that was rolled back to before a look is recognised by nothing.
//
// A reply that was lost may mean either: ingest and commit recognise their own
// earlier success, the rest can be repeated.
package store

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

//go:embed unread.lua
var unreadLua string

// What a script may refuse with.
var (
	// ErrFenced: the token is not the owner's any more. Nothing was written.
	ErrFenced = errors.New("fenced: another process owns the partition, or the ownership has expired")
	// ErrConflict: Redis does not have what the call builds on: it was rolled back, or the caller's
	// memory is stale. Nothing was written; load again.
	ErrConflict = errors.New("conflict: the store is not where the caller believed")
	// ErrRolledBack: Redis has forgotten inputs whose ingest it had acknowledged. Nothing was written; the tenure is over.
	ErrRolledBack = errors.New("rolled back: the store has forgotten inputs that it had acknowledged")
)

// Bounds of an inbox, and of what is remembered and answered.
const (
	InboxBound      = 100_000        // unread inputs an instance may have
	InboxBytes      = 64 << 20       // memory that they may take in Redis
	EarlyBytes      = 4 << 20        // bytes of the inputs that an instance may have before its start
	EarlyTotalBytes = 16 << 20       // and of all those in a partition
	seenCount       = 10_000         // message ids an instance remembers
	seenSpan        = 60 * 60 * 1000 // for how long, ms
	UnreadBatch     = 256            // unread elements a commit or a read answers
	unreadBytes     = 4 << 20        // and their size
	CommitBytes     = 16 << 20       // size of a commit
	historyChunk    = 5_000          // events read at once
)

// Store reads and writes one namespace. It is safe for concurrent use.
type Store struct {
	run   *redisx.Runner
	space redisx.Space

	ingest, commit, reconcile, due, wakeups, unread, refuse, purge, wipe, cancelled *redisx.Script
}

// New makes a store. The runner stays the caller's to close.
func New(run *redisx.Runner, space redisx.Space) *Store {
	return &Store{
		run: run, space: space,
		ingest: redisx.NewScript("ingest", "", ingestLua,
			"partition wakeups early | to(record inbox ids)*",
			"token from_seq from_time to_seq to_time max_inbox# max_ids# span# max_inbox_bytes# max_early# max_all_early# seal | message(instance id kind element)*"),
		commit: redisx.NewScript("commit", "", commitLua,
			"partition wakeups record inbox history stalled from_index to_index pruned pruned_reports early | created=create* deleted*",
			"token instance head new_head wakeup new_incarnation max_unread# max_bytes# due applied | pop* event* create(effect proof)* field* prepend* release*"),
		reconcile: redisx.NewScript("reconcile", "", reconcileLua,
			"partition wakeups record inbox stalled | key*",
			"token instance head wakeup hold reason max_claims# published | lease(effect proof)*"),
		due: redisx.NewScript("due", "", dueLua,
			"partition wakeups limits",
			"token max#"),
		refuse: redisx.NewScript("refuse", "", refuseLua,
			"partition refused",
			"token max# span# | entry*"),
		wakeups: redisx.NewScript("wakeups", "", wakeupsLua,
			"wakeups",
			"within#"),
		unread: redisx.NewScript("unread", "", unreadLua,
			"inbox",
			"max_elements# max_bytes#"),
		purge: redisx.NewScript("purge", "", purgeLua,
			"partition wakeups record inbox stalled index | data*",
			"token instance head applied | pop*"),
		wipe: redisx.NewScript("wipe", "", wipeLua,
			"partition wakeups inbox ids stalled early | index=status* data*",
			"token instance place# purge | status*"),
		cancelled: redisx.NewScript("cancelled", "", cancelledLua,
			"cancelled",
			"span# max# | mark*"),
	}
}

// Tenure names a partition and the token by which its owner writes.
type Tenure struct {
	Part   int
	Token  string
	Secret string // of the partition; see proof.go
}

// Message is one input on its way into an inbox.
type Message struct {
	Instance string
	ID       string // the sender's message id; "" if it has none, and then a repeat is not recognised
	Kind     MessageKind
	Element  []byte // see history.Element
}

// MessageKind tells ingest what it must know of a message.
type MessageKind string

// The kinds. A start goes in front of what came before it; a cancel of an instance that
// nobody has started is dropped; anything else waits for the start.
const (
	StartMessage  MessageKind = "s"
	CancelMessage MessageKind = "c"
	OtherMessage  MessageKind = ""
)

// Ingested is what became of a message.
type Ingested struct {
	Repeat  bool // taken before; dropped
	Full    bool // the inbox is at its bound; dropped, and the instance must fail by name
	Early   bool // it came before the start of its instance, and over the bound of such inputs; dropped, and an instance that has others fails by name when it starts
	Unknown bool // a cancel of an instance that nobody has started; dropped
	Exists  bool // the instance has a record
	Unread  int  // length of the inbox behind the message
}

// Ingest moves a batch into the inboxes and the position from prev to next, or does
// nothing. A nil answer without error means that this batch had been taken before.
func (s *Store) Ingest(t Tenure, prev, next history.Position, batch []Message, done func(now int64, answer []Ingested, err error)) {
	p := s.space.Part(t.Part)
	keys := make([]string, 0, 3+3*len(batch))
	keys = append(keys, p.Owner(), p.Wakeups(), p.Early())
	args := make([]any, 0, 11+4*len(batch))
	args = append(args, t.Token, num(prev.Seq), num(prev.Time), num(next.Seq), num(next.Time), InboxBound, seenCount, seenSpan,
		InboxBytes, EarlyBytes, EarlyTotalBytes, t.Seal())
	for _, m := range batch {
		keys = append(keys, p.Instance(m.Instance), p.Inbox(m.Instance), p.Seen(m.Instance))
		args = append(args, m.Instance, m.ID, string(m.Kind), m.Element)
	}
	s.run.Go(redisx.Call{Script: s.ingest, Keys: keys, Args: args}, func(v any, err error) {
		if err != nil {
			done(0, nil, err)
			return
		}
		r := redisx.NewReply(v)
		switch word := r.Str(0); word {
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

func parseIngested(said []string) ([]Ingested, error) {
	out := make([]Ingested, len(said))
	for i, s := range said {
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
				return nil, fmt.Errorf("%w: ingest said %q", redisx.ErrReply, s)
			}
			out[i].Exists, out[i].Unread = s[0] == 'e', n
		}
	}
	return out, nil
}

// DueNow is who must be looked at.
type DueSet struct {
	Now       int64 // Redis TIME, Unix ms
	Instances []string
	Next      int64 // when the next one is due, Unix ms; 0: the agenda is empty
	Limits    []string
	NextLimit int64
}

// Due takes up to limit instances, and gates, whose look is due and puts each off by two seconds.
func (s *Store) Due(t Tenure, limit int, done func(DueSet, error)) {
	p := s.space.Part(t.Part)
	s.run.Go(redisx.Call{Script: s.due, Keys: []string{p.Owner(), p.Wakeups(), p.Limits()}, Args: []any{t.Token, limit}}, func(v any, err error) {
		if err != nil {
			done(DueSet{}, err)
			return
		}
		r := redisx.NewReply(v)
		if r.Str(0) != "OK" {
			done(DueSet{}, replyError("due", r))
			return
		}
		due := DueSet{Now: r.Int(1), Instances: r.Strs(2), Next: r.Int(3), Limits: r.Strs(4), NextLimit: r.Int(5)}
		done(due, r.Err())
	})
}

// refusal turns the first word of an answer that is not OK into its error.
func replyError(script string, r *redisx.Reply) error {
	switch word := r.Str(0); word {
	case "FENCED":
		return fmt.Errorf("%s: %w", script, ErrFenced)
	case "ROLLEDBACK":
		return fmt.Errorf("%s: %w", script, ErrRolledBack)
	case "CONFLICT":
		what := make([]string, 0, 2)
		for i := 1; i < r.Len(); i++ {
			what = append(what, r.Str(i))
		}
		return fmt.Errorf("%s (%s): %w", script, strings.Join(what, " "), ErrConflict)
	default:
		return fmt.Errorf("%s: %w: %q", script, redisx.ErrReply, word)
	}
}

func num[T ~int64 | ~uint64](n T) string { return fmt.Sprint(n) }
