// Package partition assigns partitions to processes, and has the fence.
//
// # One partition
//
//	         acquire (OK)                 handover requested
//	free ─────────────────▶ owned ─────────────────────────▶ handing over
//	 ▲                        │                                   │ run returned
//	 │  ttl passed            │ FENCED, ROLLEDBACK,               ▼
//	 └──────── lost ◀─────────┘ trust expired                  release (clean)
//
// A tenure begins with acquire, which writes a token that is random for this acquisition, and ends when the token is replaced,
// released or expired. Every write of an owner carries the token and is rejected (FENCED) once it is no longer the partition's:
// two owners can run at once, but only one can write.
//
// Trust is how long the owner relies on a renewal: from the start of the last renewal that succeeded until a margin before the
// token expires in Redis, so that a paused process stops by itself.
//
// A renewal names the highest applied position, and the highest number of commits, that Redis has acknowledged to this owner. A
// Redis behind either (ROLLEDBACK) has lost writes: the tenure ends and the next one begins from what Redis has; nothing from the
// earlier one is kept.
//
// # Assignment
//
// Members send heartbeats to one hash. Rendezvous hashing over the live ones assigns the partitions, so that a member that joins
// or leaves moves only its own share. A member that owns too much hands over: its actor finishes its turns, the token is
// released, and the others are notified, so that the move takes milliseconds. While the members cannot be read, every process
// keeps its partitions.
//
// # Members that lack code
//
// During a rollout members of different builds share a namespace. A member whose partition has an instance that is stalled for code or
// for a key (core.Stall.Lacks) declines the partition: its heartbeats name it for ten minutes, and another member that does not decline
// it is assigned. If all decline it, none does: the partition stays where rendezvous hashing has it. So an instance of code that no
// member has costs each member one hand-over in ten minutes.
//
// # Members that are cut off
//
// A member may be live for Redis and receive none of its inputs. Each heartbeat carries the member's reach:
//
//	           received for CutOff without a gap
//	unproven ──────────────────────────────────▶ reading
//	 ▲    ▲           silent for CutOff/2           │
//	 │    └─────────────────────────────────────────┘
//	 │ received again
//	 │             silent for CutOff
//	cut off ◀────────────────────────────── unproven
//
// A member that is cut off is assigned nothing while another one is reading. It ends its tenures and releases their tokens at
// once, without waiting for its actors: they wait for acknowledgements that cannot come. While no member is reading, all keep
// their partitions, so an outage of NATS moves nothing. After it, the first member that receives inputs is unproven, so the
// others have CutOff to receive theirs before they would have to hand over. A member that recovers is assigned its share like one
// that joins, by clean hand-overs.
//
// # Members that have died
//
// The kernel of a process that ends, however it ends, closes its connection to NATS, and the server forgets what it listened to. So a member
// that has been silent in Redis for two renewal intervals is looked for in NATS:
//
//	       silent                no listener, twice            no heartbeat within the TTL
//	live ─────────▶ suspected ─────────────────────▶ dead ──────────────────────────────────▶ forgotten
//	 ▲                  │                              │
//	 └──────────────────┴──────── a heartbeat ─────────┘
//
// A dead member is assigned nothing, and acquire takes its partitions if they were not renewed for as long. Each sign alone is weak: a member
// that is paused or cut off from Redis is silent, and one that is cut off from NATS has no listener; neither is taken for dead. A member that
// is and lives, because it has lost both at the same time, is fenced like one whose ownership has expired. Where NATS does not answer, the TTL
// decides, as it does for a machine that was lost: the server keeps the connection of that.
//
// # Members with another number of partitions
//
// While the number of partitions is changed, package resize owns all of them (Change). A member that was paused meanwhile, or started before,
// is refused by acquire: it leaves the members, hands over what it has, and takes nothing until its process is started again with the
// new number.
//
// Order: the token is released after the tenure has ended and before its actor has returned. Writes of that actor are fenced from
// then on; its messages and tasks that arrive late are recognized by their effect ids.
//
// Crash points: the death of a process costs three renewal intervals (3 s), that of a machine the TTL (5 s) and no more: the others start a
// round when it is over. Between release
// and the notice: the others start a round every second. Between acquire and the first renewal: the token expires.
//
// The API of this package may change.
package partition

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

//go:embed heartbeat.lua
var heartbeatLua string

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

// The causes of the end of a tenure.
var (
	// ErrHandover is the cause if another member should own the partition, or this one stops. Finish outstanding work.
	ErrHandover = errors.New("partition is handed over")
	// ErrCutOff is the cause if this member cannot read its inputs, and another one can. Stop at once; the partition is released
	// already.
	ErrCutOff = errors.New("partition is released, inputs cannot be read")
	// ErrLost is the cause if another process owns the partition, or the token expired. Stop at once; nothing can be written any
	// more.
	ErrLost = errors.New("partition is lost")
	// ErrRolledBack is the cause if Redis has lost acknowledged writes. Stop at once; the next tenure begins from what it has.
	ErrRolledBack = errors.New("redis has forgotten acknowledged writes")
)

// Defaults.
const (
	DefaultTTL   = 5 * time.Second
	DefaultRenew = time.Second
)

// Tenure is the time during which this process owns a partition.
type Tenure struct {
	Part    int
	Token   string
	Applied history.Position // applied position of the inputs stream
	Clean   bool             // the last owner handed over: everything it decided has been published
	Epoch   int64            // number of acquisitions of the partition
	Secret  string           // of the partition, made by its first owner: only orchestrators can read it

	decline func() // nil: of a test
	drop    chan struct{}
	over    bool // ended by the keeper; under its mutex
	acked   atomic.Pointer[history.Position]
	commits atomic.Int64 // highest number that Redis has acknowledged
	end     context.CancelCauseFunc
	trust   atomic.Int64 // end of the trust, monotonic ns since the keeper's start
}

// Decline has another member own the partition, if one does not decline it: this one lacks what an instance of it needs.
func (t *Tenure) Decline() {
	if t.decline != nil {
		t.decline()
	}
}

// Acked records an applied position that Redis has acknowledged. Renewals compare it.
func (t *Tenure) Acked(p history.Position) { t.acked.Store(&p) }

// Committed records the number of a commit that Redis has acknowledged. Renewals compare the highest.
func (t *Tenure) Committed(n int64) {
	for old := t.commits.Load(); n > old && !t.commits.CompareAndSwap(old, n); old = t.commits.Load() {
	}
}

// Commits returns the highest number that was recorded.
func (t *Tenure) Commits() int64 { return t.commits.Load() }

// Dropped is closed when the time of a hand-over is over: unfinished work is left to the next owner.
func (t *Tenure) Dropped() <-chan struct{} { return t.drop }

// Rendezvous returns the member that should own partition p: the one with the highest hash of both. "" without members.
func Rendezvous(members []string, p int) string {
	var best string
	var high uint64
	for _, m := range members {
		h := xxhash.Sum64String(m + "\x00" + strconv.Itoa(p))
		if best == "" || h > high || h == high && m < best {
			best, high = m, h
		}
	}
	return best
}

// scripts are the scripts of this package.
type scripts struct {
	run                           *redisx.Runner
	space                         redisx.Space
	beat, acquire, renew, release *redisx.Script
}

func newScripts(run *redisx.Runner, space redisx.Space) scripts {
	return scripts{
		run: run, space: space,
		beat: redisx.NewScript("heartbeat", "", heartbeatLua,
			"members",
			"member_name own_span# span# own_reach"),
		acquire: redisx.NewScript("acquire", "", acquireLua,
			"partition",
			"token member_name span# new_secret partitions dead silent#"),
		renew: redisx.NewScript("renew", "", renewLua,
			"partition",
			"token span# acked_seq acked_time acked_commits#"),
		release: redisx.NewScript("release", "", releaseLua,
			"partition",
			"token clean"),
	}
}

// heartbeat records that this member is live (or leaves) and returns the live ones.
func (s scripts) heartbeat(ctx context.Context, own Member, leave bool, span time.Duration) ([]Member, error) {
	lives := span.Milliseconds()
	if leave {
		lives = 0
	}
	v, err := s.run.Do(ctx, redisx.Call{
		Script: s.beat, Keys: []string{s.space.Members()}, Args: []any{own.Name, lives, span.Milliseconds(), own.state()},
	})
	if err != nil {
		return nil, fmt.Errorf("partition: heartbeat: %w", err)
	}
	r := redisx.NewReply(v)
	var all []Member
	for one := range slices.Chunk(r.Strs(1), 3) {
		if len(one) == 3 {
			all = append(all, parseMember(one[0], one[1], one[2]))
		}
	}
	return all, r.Err()
}

// holder is a member that owns a partition.
type holder struct {
	member    string
	remaining time.Duration // until its ownership expires, unless it renews it
}

// acquisition is what a member acquires a partition with.
type acquisition struct {
	part, of      int // partition, and how many there are
	token, member string
	ttl           time.Duration
	dead          string        // a member whose ownership ends if it was not renewed for silent; "": none
	silent        time.Duration // of the dead
}

// tryAcquire acquires a partition. Without a tenure and without an error another member holds it. The error is a *ResizedError if the
// namespace has another number of partitions.
func (s scripts) tryAcquire(ctx context.Context, a acquisition) (*Tenure, holder, error) {
	v, err := s.run.Do(ctx, redisx.Call{
		Script: s.acquire, Keys: []string{s.space.Part(a.part).Owner()},
		Args: []any{a.token, a.member, a.ttl.Milliseconds(), rand.Text(), strconv.Itoa(a.of), a.dead, a.silent.Milliseconds()},
	})
	if err != nil {
		return nil, holder{}, fmt.Errorf("partition %d: acquire: %w", a.part, err)
	}
	r := redisx.NewReply(v)
	switch r.Str(0) {
	case "OK":
	case "RESIZED":
		return nil, holder{}, errors.Join(&ResizedError{Have: int(r.Int(1))}, r.Err())
	default:
		return nil, holder{r.Str(1), time.Duration(r.Int(2)) * time.Millisecond}, r.Err()
	}
	t := &Tenure{
		Part: a.part, Token: a.token, drop: make(chan struct{}),
		Applied: history.Position{Seq: uint64(r.Int(1)), Time: r.Int(2)}, //nolint:gosec // a stream's sequence is below 2^63
		Clean:   r.Str(3) == "1", Epoch: r.Int(4), Secret: r.Str(6),
	}
	if t.Secret == "" && r.Err() == nil {
		return nil, holder{}, fmt.Errorf("partition %d: acquire: %w: no secret", a.part, redisx.ErrReply)
	}
	t.Acked(t.Applied)
	t.Committed(r.Int(5))
	return t, holder{}, r.Err()
}

// renewTenure renews; ErrLost and ErrRolledBack end the tenure, any other error is transient.
func (s scripts) renewTenure(t *Tenure, ttl time.Duration, done func(error)) {
	acked, commits := t.acked.Load(), t.commits.Load()
	s.run.Go(redisx.Call{
		Script: s.renew, Keys: []string{s.space.Part(t.Part).Owner()},
		Args:   []any{t.Token, ttl.Milliseconds(), strconv.FormatUint(acked.Seq, 10), strconv.FormatInt(acked.Time, 10), commits},
		Within: ttl / 5, // the next one is sent by then
		Join:   true,
	}, func(v any, err error) {
		if err != nil {
			done(fmt.Errorf("partition %d: renew: %w", t.Part, err))
			return
		}
		r := redisx.NewReply(v)
		switch word := r.Str(0); word {
		case "OK":
			done(r.Err())
		case "ROLLEDBACK":
			done(fmt.Errorf("partition %d: applied is %d, was acknowledged at %d; commits are %d, were acknowledged at %d: %w",
				t.Part, r.Int(1), acked.Seq, r.Int(3), commits, ErrRolledBack))
		case "FENCED":
			done(fmt.Errorf("partition %d: %w", t.Part, ErrLost))
		default:
			done(fmt.Errorf("partition %d: renew: %w: %q", t.Part, redisx.ErrReply, word))
		}
	})
}

// releaseToken releases; it is harmless when the tenure is over.
func (s scripts) releaseToken(ctx context.Context, t *Tenure, clean bool) error {
	c := "0"
	if clean {
		c = "1"
	}
	if _, err := s.run.Do(ctx, redisx.Call{Script: s.release, Keys: []string{s.space.Part(t.Part).Owner()}, Args: []any{t.Token, c}}); err != nil {
		return fmt.Errorf("partition %d: release: %w", t.Part, err)
	}
	return nil
}
