package worker

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/message"
)

const (
	maxAcks     = 4096
	maxAckBytes = 8 << 20 // total size of their completions
)

// acks holds the completions that Redis has acknowledged recently, oldest first. Each is kept for the TTL of its lease: the longest time
// for which its claim could last if Redis lost the ack. The zero value is empty; it is safe for concurrent use.
type acks struct {
	mu    sync.Mutex
	ring  []ack // nil or maxAcks elements
	first int   // index of the oldest ack
	n     int   // number of acks
	bytes int   // total size of their completions
}

type ack struct {
	leases.Completion

	until time.Time
}

func (a *acks) add(c leases.Completion, ttl time.Duration) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil {
		a.ring = make([]ack, maxAcks)
	}
	a.bytes += len(c.Body)
	for a.n > 0 && (a.n == maxAcks || a.bytes > maxAckBytes || a.ring[a.first].until.Before(now)) {
		a.bytes -= len(a.ring[a.first].Body)
		a.ring[a.first] = ack{}
		a.first = (a.first + 1) % maxAcks
		a.n--
	}
	a.ring[(a.first+a.n)%maxAcks] = ack{Completion: c, until: now.Add(ttl)}
	a.n++
}

// byToken returns the completions, keyed by the token of their claim.
func (a *acks) byToken() map[string]leases.Completion {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]leases.Completion, a.n)
	for i := range a.n {
		c := a.ring[(a.first+i)%maxAcks].Completion
		out[c.Token] = c
	}
	return out
}

// confirmClaims answers an owner's query about claims of this worker. The owner sends it if the store has, or may have, lost writes.
// Claims whose state is uncertain are left alone and expire.
//
//	the task is here, claimed or being claimed ──▶ nothing: the keeper renews it
//	its completion was acknowledged recently   ──▶ acknowledged again: the activity does not run twice
//	the token is of this process               ──▶ released: the owner dispatches the task again
//	otherwise                                  ──▶ nothing: an earlier process had this name
//
// A repeated ack is answered GONE if the first was not lost. A release is answered STOLEN if the claim has been released or has expired
// in the meantime.
//
// Tokens of other processes are ignored, because a query may be forged.
func (w *Worker) confirmClaims(claims []message.Hint) {
	claims = slices.DeleteFunc(claims, func(c message.Hint) bool { return !strings.HasPrefix(c.Token, w.tokens.prefix+"-") })
	if len(claims) == 0 {
		return
	}
	here := w.tasks.tokens()
	acked := w.acks.byToken() // read second: an ack recorded after tokens() is included
	for _, c := range claims {
		completion, ok := acked[c.Token]
		switch {
		case here[c.Token]:
		case ok && completion.Effect == c.Effect && completion.Instance == c.Instance:
			w.ackAgain(completion)
		default:
			w.releaseUnknown(leases.Claim{Token: c.Token, Ref: leases.Ref{
				Part: w.conn.PartitionOf(c.Instance), Instance: c.Instance, Execution: c.Execution, Activity: c.Activity, Effect: c.Effect,
			}})
		}
	}
}

func (w *Worker) ackAgain(c leases.Completion) {
	w.leases.Ack(c, func(a leases.Acked, err error) {
		if err != nil || a.Outcome != leases.OK {
			return
		}
		w.log.Info("completion lost by redis, acknowledged again", "of", c.Ref.String())
		if a.Inbox == 1 {
			w.doorbells.add(c.Ref, a)
		}
	})
}

func (w *Worker) releaseUnknown(c leases.Claim) {
	w.leases.Release(leases.ReleaseRequest{Claim: c, Uncounted: true}, func(o leases.Outcome, err error) {
		if err == nil && o == leases.OK {
			w.log.Info("claim without its activity released", "of", c.Ref.String())
		}
	})
}
