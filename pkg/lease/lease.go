package lease

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// MaxRenew is the maximum number of leases of one renewal script.
const MaxRenew = 500

// Ref identifies a lease.
type Ref struct {
	Part      int // partition of the instance
	Instance  string
	Execution uint64
	Activity  uint64 // event id of the schedule
	Effect    string // as the schedule records it
}

// String identifies the activity in log lines and errors.
func (r Ref) String() string {
	return fmt.Sprintf("activity %d of %s (execution %d)", r.Activity, r.Instance, r.Execution)
}

// Outcome is the outcome of a script.
type Outcome uint8

// The outcomes. The zero value is none: there was no reply.
const (
	OK        Outcome = 1 // renew, ack, release: done
	Acquired  Outcome = 2 // claim: the caller holds the lease
	Held      Outcome = 3 // claim: another worker holds it
	Exhausted Outcome = 4 // claim: free, but claimed as often as is allowed
	Gone      Outcome = 5 // there is no such lease: cancelled, completed, or of a lost turn
	Stolen    Outcome = 6 // another worker holds it, or none: it was returned or revoked
	Expired   Outcome = 7 // the caller's claim had expired
)

var outcomeNames = [...]string{
	OK: "OK", Acquired: "ACQUIRED", Held: "HELD", Exhausted: "EXHAUSTED", Gone: "GONE", Stolen: "STOLEN", Expired: "EXPIRED",
}

// String returns the word of the script's reply.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "outcome-" + strconv.Itoa(int(o))
}

func outcome(word string) (Outcome, error) {
	for o, w := range outcomeNames {
		if w != "" && w == word {
			return Outcome(o), nil
		}
	}
	return 0, fmt.Errorf("%w: %q from a lease script", redisx.ErrReply, word)
}

//go:embed claim.lua
var claimLua string

//go:embed renew.lua
var renewLua string

//go:embed ack.lua
var ackLua string

//go:embed release.lua
var releaseLua string

// Leases runs the scripts of the leases of a namespace. Its methods send and return; the callback is called exactly once, on the
// runner's own goroutine, and must not block. They are safe for concurrent use.
type Leases struct {
	runner                     *redisx.Runner
	space                      redisx.Space
	claim, renew, ack, release *redisx.Script
	report, required           *redisx.Script
}

// New makes the leases of a key space. The runner stays the caller's to close.
func New(runner *redisx.Runner, space redisx.Space) *Leases {
	return &Leases{
		runner: runner, space: space,
		claim: redisx.NewScript("claim", "", claimLua,
			"lease",
			"effect token worker ttl max_claims#"),
		renew: redisx.NewScript("renew", "", renewLua,
			"| lease*",
			"ttl# | token*"),
		ack: redisx.NewScript("ack", "", ackLua,
			"lease inbox wakeups",
			"effect token instance id body largest#"),
		release: redisx.NewScript("release", "", releaseLua,
			"lease wakeups",
			"effect token instance uncounted delay#"),
		report: redisx.NewScript("report", "", reportLua,
			"record reports",
			"execution# | report(activity text once)*"),
		required: redisx.NewScript("required", "", requiredLua,
			"| lease*",
			"| effect*"),
	}
}

func (l *Leases) key(r Ref) string {
	return l.space.Part(r.Part).Lease(r.Instance, r.Execution, r.Activity)
}

// Claim is a lease with the token of the claim that holds it.
type Claim struct {
	Ref
	Token string // fresh for every delivery
}

// ClaimRequest requests a lease.
type ClaimRequest struct {
	Claim
	Worker    string
	TTL       time.Duration // at least 1 ms
	MaxClaims int           // further claims are refused
}

// ClaimReply is the reply to a ClaimRequest.
type ClaimReply struct {
	Outcome Outcome // Acquired, Held, Exhausted or Gone
	Claims  uint32  // Acquired: claims so far, this one included; Exhausted: claims so far
	Until   int64   // Acquired, Held: Unix ms by the clock of Redis
}

// Claim claims a lease that is free or expired. The caller counts its trust from before the first call with this token, because
// that may be the one that took effect.
func (l *Leases) Claim(b ClaimRequest, done func(ClaimReply, error)) {
	l.runner.Go(redisx.Call{
		Script: l.claim,
		Keys:   []string{l.key(b.Ref)},
		Args:   []any{b.Effect, b.Token, b.Worker, b.TTL.Milliseconds(), b.MaxClaims},
		Join:   true,
	}, func(reply any, err error) {
		if err != nil {
			done(ClaimReply{}, err)
			return
		}
		done(readClaim(redisx.NewReply(reply)))
	})
}

func readClaim(r *redisx.Reply) (c ClaimReply, err error) {
	if c.Outcome, err = outcome(r.Str(0)); err != nil {
		return ClaimReply{}, err
	}
	switch c.Outcome {
	case Acquired:
		c.Claims, c.Until = uint32(r.Int(1)), r.Int(2) //nolint:gosec // bounded by MaxClaims
	case Exhausted:
		c.Claims = uint32(r.Int(1)) //nolint:gosec // bounded by MaxClaims
	case Held:
		c.Until = r.Int(1)
	case Gone:
	case OK, Stolen, Expired:
		return ClaimReply{}, fmt.Errorf("%w: %s to a claim", redisx.ErrReply, c.Outcome)
	}
	return c, r.Err()
}

// Renew extends leases of one partition, at most MaxRenew, to a TTL from now. The reply has one outcome for each: OK, Gone,
// Stolen or Expired.
func (l *Leases) Renew(part int, grips []Claim, ttl time.Duration, done func([]Outcome, error)) {
	prefix := l.space.Part(part)
	keys, args := make([]string, len(grips)), make([]any, 1, 1+len(grips))
	args[0] = ttl.Milliseconds()
	for i, g := range grips {
		keys[i] = prefix.Lease(g.Instance, g.Execution, g.Activity)
		args = append(args, g.Token)
	}
	l.runner.Go(redisx.Call{Script: l.renew, Keys: keys, Args: args, Within: ttl / retryDivisor}, func(reply any, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(outcomes(reply, len(keys)))
	})
}

// Completion ends a lease with its result.
type Completion struct {
	Claim
	Body []byte // an ActivityCompleted or ActivityFailed, as history.Encode writes it
}

// elementID returns the id of the inbox element of the completion.
func (c Completion) elementID() string { return "a" + c.Effect + "." + c.Token }

// Acked is the reply to a Completion.
type Acked struct {
	Outcome Outcome         // OK, Gone, Stolen or Expired; unless OK nothing was written
	Inbox   int             // elements in the inbox, this one included: at 1 the worker rings the doorbell
	Element history.Element // as it was pushed
	Proof   string          // for the doorbell
}

// Ack deletes the lease and pushes the completion to the instance's inbox, or does nothing.
func (l *Leases) Ack(c Completion, done func(Acked, error)) {
	p := l.space.Part(c.Part)
	id := c.elementID()
	l.runner.Go(redisx.Call{
		Script: l.ack,
		Keys:   []string{l.key(c.Ref), p.Inbox(c.Instance), p.Wakeups()},
		Args:   []any{c.Effect, c.Token, c.Instance, id, c.Body, history.MaxDoorbellElement},
		Join:   true,
	}, func(reply any, err error) {
		if err != nil {
			done(Acked{}, err)
			return
		}
		r := redisx.NewReply(reply)
		var a Acked
		if a.Outcome, err = outcome(r.Str(0)); err == nil && a.Outcome == OK {
			a.Inbox = int(r.Int(1))
			a.Element = history.Element{ID: id, At: r.Int(2), Body: c.Body}
			a.Proof = r.Str(3)
			err = r.Err()
		}
		done(a, err)
	})
}

// ReleaseRequest releases a lease before its claim expires.
type ReleaseRequest struct {
	Claim
	Uncounted bool          // the claim does not count
	Delay     time.Duration // the owner dispatches its task again after this
}

// Release releases a lease, so that other workers need not wait for the claim to expire. The outcome is OK, Gone, Stolen or
// Expired; unless OK nothing was written.
func (l *Leases) Release(r ReleaseRequest, done func(Outcome, error)) {
	uncounted := "0"
	if r.Uncounted {
		uncounted = "1"
	}
	l.runner.Go(redisx.Call{
		Script: l.release,
		Keys:   []string{l.key(r.Ref), l.space.Part(r.Part).Wakeups()},
		Args:   []any{r.Effect, r.Token, r.Instance, uncounted, r.Delay.Milliseconds()},
	}, func(reply any, err error) {
		if err != nil {
			done(0, err)
			return
		}
		rep := redisx.NewReply(reply)
		o, err := outcome(rep.Str(0))
		done(o, err)
	})
}
