package worker

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	maxAcks     = 4096
	maxAckBytes = 8 << 20 // of their completions
)

// acks has the completions that Redis has acknowledged recently, oldest first, for the TTL of their leases: the time that their claims
// could last if Redis lost the ack. The zero value is empty; it is safe for concurrent use.
type acks struct {
	mu    sync.Mutex
	ring  []ack // of maxAcks elements
	first int   // index of the oldest
	n     int
	bytes int
}

type ack struct {
	lease.Completion

	until time.Time
}

func (a *acks) add(c lease.Completion, ttl time.Duration) {
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

// byToken returns the completions by token.
func (a *acks) byToken() map[string]lease.Completion {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]lease.Completion, a.n)
	for i := range a.n {
		c := a.ring[(a.first+i)%maxAcks].Completion
		out[c.Token] = c
	}
	return out
}

// confirmClaims handles claims that an owner asks about, because the store has lost writes, or may have. The worker leaves alone what it
// is not certain of; that claim expires.
//
//	the task is here, claimed or being claimed ──▶ nothing: the keeper renews it
//	its completion was acknowledged recently   ──▶ acknowledged again: nothing runs twice
//	the token is of this process               ──▶ released: the owner dispatches the task again
//	otherwise                                  ──▶ nothing: another process had this name
//
// The reply to an ack that was not lost is GONE, and to a claim that was released or has expired in the meantime STOLEN.
//
// Tokens of other processes are dropped first, because a hint may be forged.
func (w *Worker) confirmClaims(claims []queue.Hint) {
	claims = slices.DeleteFunc(claims, func(c queue.Hint) bool { return !strings.HasPrefix(c.Token, w.tokens.prefix+"-") })
	if len(claims) == 0 {
		return
	}
	here := w.tasks.tokens()
	acked := w.acks.byToken() // read second: it has what was removed from the tasks in between
	for _, c := range claims {
		completion, ok := acked[c.Token]
		switch {
		case here[c.Token]:
		case ok && completion.Effect == c.Effect && completion.Instance == c.Instance:
			w.ackAgain(completion)
		default:
			w.releaseUnknown(lease.Claim{Token: c.Token, Ref: lease.Ref{
				Part: w.conn.PartitionOf(c.Instance), Instance: c.Instance, Execution: c.Execution, Activity: c.Activity, Effect: c.Effect,
			}})
		}
	}
}

func (w *Worker) ackAgain(c lease.Completion) {
	w.leases.Ack(c, func(a lease.Acked, err error) {
		if err != nil || a.Outcome != lease.OK {
			return
		}
		w.log.Info("completion lost by redis, acknowledged again", "of", c.Ref.String())
		if a.Inbox == 1 {
			w.doorbells.ring(c.Ref, a)
		}
	})
}

func (w *Worker) releaseUnknown(c lease.Claim) {
	w.leases.Release(lease.ReleaseRequest{Claim: c, Uncounted: true}, func(o lease.Outcome, err error) {
		if err == nil && o == lease.OK {
			w.log.Info("claim without its activity released", "of", c.Ref.String())
		}
	})
}
