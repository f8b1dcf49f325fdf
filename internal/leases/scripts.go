package leases

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/redisx"
)

// MaxRenew is the maximum number of leases of one call of Scripts.Renew.
const MaxRenew = 500

// Ref identifies a lease.
type Ref struct {
	Part      int // partition of the instance
	Instance  string
	Execution uint64
	Activity  uint64 // event id of the schedule of the activity
	Effect    string // effect id, as the schedule records it
}

// String names the activity, its instance and its execution, for log lines and errors.
func (r Ref) String() string {
	return fmt.Sprintf("activity %d of %s (execution %d)", r.Activity, r.Instance, r.Execution)
}

// Outcome is the outcome of a script for one lease.
type Outcome uint8

// The outcomes. The zero value means that there was no reply.
const (
	OK        Outcome = 1 // renew, ack, release: done; required: the lease exists
	Acquired  Outcome = 2 // claim: the caller holds the lease
	Held      Outcome = 3 // claim: another worker holds it
	Exhausted Outcome = 4 // claim: no worker holds it, but it has been claimed the maximum number of times
	Gone      Outcome = 5 // there is no such lease: cancelled, completed, or of a turn that Redis has lost
	Stolen    Outcome = 6 // another worker holds it, or it is free: it was released or revoked
	Expired   Outcome = 7 // the caller's claim had expired
)

var outcomeNames = [...]string{
	OK: "OK", Acquired: "ACQUIRED", Held: "HELD", Exhausted: "EXHAUSTED", Gone: "GONE", Stolen: "STOLEN", Expired: "EXPIRED",
}

// String returns the outcome as the script replies it, in upper case.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "outcome-" + strconv.Itoa(int(o))
}

// outcome parses the first word of a script's reply.
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

// Scripts runs the lease scripts of a namespace. Its methods send a request and return at once. The callback is called exactly once, on
// the runner's goroutine, and must not block; its error reports that there was no valid reply, so the script may have taken effect or
// not. The methods are safe for concurrent use.
type Scripts struct {
	runner                     *redisx.Runner
	space                      redisx.Space
	claim, renew, ack, release *redisx.Script
	report, required           *redisx.Script
}

// New returns the leases of a key space. The caller closes the runner.
func New(runner *redisx.Runner, space redisx.Space) *Scripts {
	return &Scripts{
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

func (l *Scripts) key(r Ref) string {
	return l.space.Part(r.Part).Lease(r.Instance, r.Execution, r.Activity)
}

// Claim is a lease with the token of a claim.
type Claim struct {
	Ref
	Token string // new for every delivery, and unique among all workers
}

// ClaimRequest requests a claim of a lease.
type ClaimRequest struct {
	Claim
	Worker    string
	TTL       time.Duration // time until the claim expires; at least 1 ms
	MaxClaims int           // number of claims from which on further ones are answered Exhausted
}

// ClaimReply is the reply to a ClaimRequest.
type ClaimReply struct {
	Outcome Outcome // Acquired, Held, Exhausted or Gone
	Claims  uint32  // Acquired: number of claims, including this one; Exhausted: number of claims so far
	Until   int64   // Acquired, Held: expiry of the claim, Unix ms by the clock of Redis
}

// Claim claims a lease that is free or whose claim has expired. It may be repeated with the same token if there was no reply; the trust
// window then starts before the first call, because that may be the one that took effect.
func (l *Scripts) Claim(r ClaimRequest, done func(ClaimReply, error)) {
	l.runner.Go(redisx.Call{
		Script: l.claim,
		Keys:   []string{l.key(r.Ref)},
		Args:   []any{r.Effect, r.Token, r.Worker, r.TTL.Milliseconds(), r.MaxClaims},
		Join:   true,
	}, reading(done, readClaim))
}

// reading returns a callback of the runner that reads a reply and calls done.
func reading[T any](done func(T, error), read func(*redisx.Reply) (T, error)) func(any, error) {
	return func(reply any, err error) {
		var out T
		if err == nil {
			out, err = read(redisx.NewReply(reply))
		}
		done(out, err)
	}
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

// Renew extends the claims of at most MaxRenew leases of one partition, to a TTL from now. The reply has one outcome per lease: OK, Gone,
// Stolen or Expired.
func (l *Scripts) Renew(part int, claims []Claim, ttl time.Duration, done func([]Outcome, error)) {
	prefix := l.space.Part(part)
	keys, args := make([]string, len(claims)), make([]any, 1, 1+len(claims))
	args[0] = ttl.Milliseconds()
	for i, c := range claims {
		keys[i] = prefix.Lease(c.Instance, c.Execution, c.Activity)
		args = append(args, c.Token)
	}
	l.runner.Go(redisx.Call{Script: l.renew, Keys: keys, Args: args, Within: ttl / retryDivisor}, reading(done, outcomes(len(keys))))
}

// Completion is the result of an activity, which ends its lease.
type Completion struct {
	Claim
	Body []byte // an ActivityCompleted or ActivityFailed event, as encoded by eventcodec.Encode
}

// elementID returns the id of the completion's element in the inbox.
func (c Completion) elementID() string { return "a" + c.Effect + "." + c.Token }

// Acked is the reply to a Completion.
type Acked struct {
	Outcome Outcome            // OK, Gone, Stolen or Expired; nothing was written unless it is OK
	Inbox   int                // number of elements in the inbox, including this one: if it is 1, the worker sends the doorbell
	Element eventcodec.Element // the element that was pushed
	Proof   string             // for the doorbell
}

// Ack deletes the lease and pushes the completion to the instance's inbox, or does neither. It may be repeated if there was no reply: an
// ack that took effect is answered Gone.
func (l *Scripts) Ack(c Completion, done func(Acked, error)) {
	p := l.space.Part(c.Part)
	id := c.elementID()
	l.runner.Go(redisx.Call{
		Script: l.ack,
		Keys:   []string{l.key(c.Ref), p.Inbox(c.Instance), p.Wakeups()},
		Args:   []any{c.Effect, c.Token, c.Instance, id, c.Body, eventcodec.MaxDoorbellElement},
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
			a.Element = eventcodec.Element{ID: id, At: r.Int(2), Body: c.Body}
			a.Proof = r.Str(3)
			err = r.Err()
		}
		done(a, err)
	})
}

// ReleaseRequest releases a lease before its claim expires.
type ReleaseRequest struct {
	Claim
	Uncounted bool          // the claim is not counted
	Delay     time.Duration // time after which the owner dispatches its task again
}

// Release frees a lease before its claim expires, so that other workers need not wait. The outcome is OK, Gone, Stolen or Expired;
// nothing was written unless it is OK.
func (l *Scripts) Release(r ReleaseRequest, done func(Outcome, error)) {
	uncounted := "0"
	if r.Uncounted {
		uncounted = "1"
	}
	l.runner.Go(redisx.Call{
		Script: l.release,
		Keys:   []string{l.key(r.Ref), l.space.Part(r.Part).Wakeups()},
		Args:   []any{r.Effect, r.Token, r.Instance, uncounted, r.Delay.Milliseconds()},
	}, reading(done, func(reply *redisx.Reply) (Outcome, error) { return outcome(reply.Str(0)) }))
}
