// Package partition assigns partitions to processes, and fences former owners.
//
// # One partition
//
//	         acquire (OK)                 handover requested
//	free ─────────────────▶ owned ─────────────────────────▶ handing over
//	 ▲                        │                                   │ run returned
//	 │  ttl passed            │ FENCED, ROLLEDBACK,               ▼
//	 └──────── lost ◀─────────┘ trust expired                  release (clean)
//
// A tenure begins with acquire, which writes a new random token, and ends when the token is replaced,
// released or expired. Every write of an owner carries the token, and is rejected (FENCED) unless the token is current:
// two owners can run at once, but only one can write.
//
// Trust is the time during which the owner relies on a renewal: from the start of the last successful renewal until a margin before the
// token expires in Redis. A paused process therefore stops by itself.
//
// A renewal carries the highest applied position, and the highest number of commits, that Redis has acknowledged to this owner. A
// Redis that is behind either of them (ROLLEDBACK) has lost writes. The tenure then ends, and the next one begins from the state in Redis;
// nothing of the earlier tenure is kept.
//
// # Assignment
//
// Members write heartbeats to one hash. Rendezvous hashing assigns the partitions to the live members, so that a member that joins
// or leaves moves only its own share. An owner hands over a partition that is assigned to another member: its actor finishes its turns, the
// token is released, and the other members are notified, so that the move takes milliseconds. While the members cannot be read, every
// process keeps its partitions.
//
// # Members that lack code
//
// During a rollout members of different builds share a namespace. A member whose partition has an instance that is stalled because it lacks code
// or a key (core.Stall.Lacks) declines the partition: its heartbeats list the partition for ten minutes, and it is assigned to another member that
// does not decline it. If all members decline it, the declines have no effect, and rendezvous hashing decides. An instance whose code no
// member has therefore costs each member one hand-over in ten minutes.
//
// # Members that are cut off
//
// A member may reach Redis but receive none of its inputs. Each heartbeat carries the member's reach:
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
// once, without waiting for its actors, because they wait for acknowledgements that cannot arrive. While no member is reading, all keep
// their partitions, so an outage of NATS moves nothing. After the outage the first member that receives inputs is unproven for CutOff, which
// gives the other members time to receive theirs. A member that recovers is assigned its share like one that joins, by clean hand-overs.
//
// # Members that have died
//
// When a process ends, in whatever way, the kernel closes its connection to NATS, and the server removes its subscriptions. Therefore a member
// that has sent no heartbeat for two renewal intervals is probed in NATS:
//
//	       silent                no listener, twice            no heartbeat within the TTL
//	live ─────────▶ suspected ─────────────────────▶ dead ──────────────────────────────────▶ forgotten
//	 ▲                  │                              │
//	 └──────────────────┴──────── a heartbeat ─────────┘
//
// A dead member is assigned nothing, and acquire takes its partitions if they were not renewed for two renewal intervals either. Each sign alone
// is weak: a member that is paused or cut off from Redis is silent, and one that is cut off from NATS has no listener; neither is considered dead.
// A live member that has lost both at the same time is considered dead, and is fenced like one whose ownership has expired. If NATS does not
// answer, the TTL decides. The TTL also decides after the loss of a machine, because the NATS server keeps its connection.
//
// # Members with another number of partitions
//
// While the number of partitions is changed, package resize owns all of them (Change). Afterwards acquire rejects a member with the old number,
// which was paused during the change, or started before it. That member leaves, hands over its partitions, and acquires none until its process
// is restarted with the new number.
//
// Order: the token of a member that is cut off is released before its actor has returned. Writes of that actor are fenced from
// then on; its messages and tasks that arrive late are recognized by their effect ids.
//
// Crash points: the death of a process delays its partitions by three renewal intervals (3 s), the loss of a machine by the TTL (5 s) and
// no longer, because the others start a round when the TTL expires. A crash between release and its notice: the others start a round
// every second. A crash between acquire and the first renewal: the token expires.
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

// Causes for which a tenure ends.
var (
	// ErrHandover is the cause if another member should own the partition, or this one stops. The owner finishes outstanding work.
	ErrHandover = errors.New("partition is handed over")
	// ErrCutOff is the cause if this member cannot read its inputs and another one can. The partition is already released; the owner
	// stops at once.
	ErrCutOff = errors.New("partition is released, inputs cannot be read")
	// ErrLost is the cause if another process owns the partition, or the token has expired. No write can succeed; the owner
	// stops at once.
	ErrLost = errors.New("partition is lost")
	// ErrRolledBack is the cause if Redis has lost acknowledged writes. The owner stops at once; the next tenure begins from the
	// state in Redis.
	ErrRolledBack = errors.New("redis lost acknowledged writes")
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
	Applied history.Position // position in INPUTS up to which inputs are applied
	Clean   bool             // the previous owner handed over: everything it decided has been published
	Epoch   int64            // number of acquisitions of the partition so far
	Secret  string           // of the partition, generated by its first owner; only orchestrators can read it

	decline func() // nil in tests
	drop    chan struct{}
	expired bool // trust has expired; guarded by the keeper's mutex
	acked   atomic.Pointer[history.Position]
	commits atomic.Int64 // highest number that Redis has acknowledged
	end     context.CancelCauseFunc
	trust   atomic.Int64 // end of the trust, monotonic ns since the keeper's start
}

// Decline has the partition assigned to another member that does not decline it, because this process lacks what one of its instances needs.
func (t *Tenure) Decline() {
	if t.decline != nil {
		t.decline()
	}
}

// Acked records an applied position that Redis has acknowledged. Renewals check it.
func (t *Tenure) Acked(p history.Position) { t.acked.Store(&p) }

// Committed records the number of a commit that Redis has acknowledged. Renewals check the highest one.
func (t *Tenure) Committed(n int64) {
	for old := t.commits.Load(); n > old && !t.commits.CompareAndSwap(old, n); old = t.commits.Load() {
	}
}

// Commits returns the highest number of an acknowledged commit.
func (t *Tenure) Commits() int64 { return t.commits.Load() }

// Dropped returns a channel that is closed when the time for a hand-over is over. The next owner then repairs unfinished work.
func (t *Tenure) Dropped() <-chan struct{} { return t.drop }

// Rendezvous returns the member that should own partition p: the one for which the hash of member and partition is the highest. It returns ""
// without members.
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

// heartbeat records that this member is live, or removes it, and returns the live members.
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
	remaining time.Duration // until its ownership expires, unless it is renewed
}

// acquisition holds the arguments of acquire.
type acquisition struct {
	part, of      int // partition, and number of partitions
	token, member string
	ttl           time.Duration
	dead          string        // a member whose ownership may be taken if it was not renewed for silent; "": none
	silent        time.Duration // applies to dead
}

// tryAcquire acquires a partition. If another member holds it, tryAcquire returns that holder, without a tenure and without an error. The error
// is a *ResizedError if the namespace has another number of partitions.
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

// renewTenure renews the ownership. ErrLost and ErrRolledBack end the tenure; any other error is transient.
func (s scripts) renewTenure(t *Tenure, ttl time.Duration, done func(error)) {
	acked, commits := t.acked.Load(), t.commits.Load()
	s.run.Go(redisx.Call{
		Script: s.renew, Keys: []string{s.space.Part(t.Part).Owner()},
		Args:   []any{t.Token, ttl.Milliseconds(), strconv.FormatUint(acked.Seq, 10), strconv.FormatInt(acked.Time, 10), commits},
		Within: ttl / 5, // then the next renewal is sent
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

// releaseToken releases the ownership. It has no effect if the token is no longer current.
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
