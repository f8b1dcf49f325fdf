package lease

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// MaxRenew is how many leases one renewal script takes.
const MaxRenew = 500

// Ref names a lease.
type Ref struct {
	Part      int // partition of the instance
	Instance  string
	Execution uint64
	Activity  uint64 // event id of the schedule
	Effect    string // effect id, as the schedule records it
}

// String names the activity in log lines and errors.
func (r Ref) String() string {
	return fmt.Sprintf("activity %d of %s (execution %d)", r.Activity, r.Instance, r.Execution)
}

// Outcome is what a script answered.
type Outcome uint8

// The outcomes. The zero value is none: there was no answer.
const (
	OK        Outcome = 1 // renew, ack, abandon: done
	Acquired  Outcome = 2 // claim: the lease is the caller's
	Held      Outcome = 3 // claim: somebody holds it
	Exhausted Outcome = 4 // claim: free, but claimed as often as is allowed
	Gone      Outcome = 5 // there is no such lease: cancelled, completed, or of a forgotten turn
	Stolen    Outcome = 6 // somebody else holds it, or nobody: it was given back or cleared
	Expired   Outcome = 7 // the caller's time was over before it asked
)

var outcomeNames = [...]string{
	OK: "OK", Acquired: "ACQUIRED", Held: "HELD", Exhausted: "EXHAUSTED", Gone: "GONE", Stolen: "STOLEN", Expired: "EXPIRED",
}

// String is the word that the script answered.
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

// Leases speaks to the leases of a namespace. Its methods send and return; the
// answer goes to a callback, which is called exactly once on the runner's own
// goroutine and must hand it over and return. They are safe for concurrent use.
type Leases struct {
	runner                     *redisx.Runner
	space                      redisx.Space
	claim, renew, ack, release *redisx.Script
	report, required           *redisx.Script
}

// New gives the leases of a key space. The runner stays the caller's to close.
func New(runner *redisx.Runner, space redisx.Space) *Leases {
	return &Leases{
		runner: runner, space: space,
		claim: redisx.NewScript("claim", "", claimLua,
			"lease",
			"effect token worker ttl# max_claims#"),
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

// Grip names a lease together with the claim that holds it.
type Claim struct {
	Ref
	Token string // fresh for every delivery
}

// Bid is a wish to hold a lease.
type ClaimRequest struct {
	Claim
	Worker    string
	TTL       time.Duration // at least 1 ms
	MaxClaims int           // claims beyond this many are refused
}

// Claim is the answer to a Bid.
type ClaimReply struct {
	Outcome Outcome // Yours, Held, Exhausted or Gone
	Claims  uint32  // Yours: claims so far, this one included; Exhausted: claims so far
	Until   int64   // Yours, Held: Unix ms by the clock of Redis
}

// Claim takes a lease that is free or expired. The bidder counts its trust from before
// the first call with this token, for that may be the one that took effect.
func (l *Leases) Claim(b ClaimRequest, done func(ClaimReply, error)) {
	l.runner.Go(redisx.Call{
		Script: l.claim,
		Keys:   []string{l.key(b.Ref)},
		Args:   []any{b.Effect, b.Token, b.Worker, b.TTL.Milliseconds(), b.MaxClaims},
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

// Renew prolongs leases of one partition, at most MaxRenew, to a TTL from now. The
// answer has one outcome for each: OK, Gone, Stolen or Expired.
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

// Completion ends a lease with what came of it.
type Completion struct {
	Claim
	Body []byte // an ActivityCompleted or ActivityFailed, as history.Encode writes it
}

// elementID is the id of the inbox element that the completion becomes.
func (c Completion) elementID() string { return "a" + c.Effect + "." + c.Token }

// Acked is the answer to a Completion.
type Acked struct {
	Outcome Outcome         // OK, Gone, Stolen or Expired; unless OK nothing was written
	Inbox   int             // elements in the inbox, this one included: at 1 the doorbell is rung
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

// Return gives a lease back before its end.
type ReleaseRequest struct {
	Claim
	Uncounted bool          // the claim is not to be counted
	Delay     time.Duration // the owner dispatches it again after this
}

// Abandon gives a lease back, so that others need not wait for its expiry. The
// outcome is OK, Gone, Stolen or Expired; unless OK nothing was written.
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
