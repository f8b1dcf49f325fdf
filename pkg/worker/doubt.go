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

// acks are the completions that Redis has acknowledged lately, oldest first: for as long as their claims could last if Redis
// forgot that they ended. The zero value is empty; it is safe for concurrent use.
type acks struct {
	mu    sync.Mutex
	ring  []ack // of maxAcks, from the first
	first int
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

// byToken lists them.
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

// settleDoubts answers for claims that the store has and their owner doubts, because the store has forgotten writes, or
// may have. Whatever is not certain is left alone: the claim then expires.
//
//	the task is here, claimed or being claimed ──▶ nothing: the keeper renews it
//	its completion was acknowledged lately     ──▶ it is acknowledged again: nothing runs twice
//	the token is of this process               ──▶ given back: the owner dispatches it again
//	else                                       ──▶ nothing: another process had this name
//
// An ack that was not forgotten is answered GONE, and a claim that was given back or expired meanwhile STOLEN.
//
// A token that is not of this process is none of these, and is dropped before anything is compared: a hint may be forged.
func (w *Worker) settleDoubts(doubted []queue.Hint) {
	doubted = slices.DeleteFunc(doubted, func(d queue.Hint) bool { return !strings.HasPrefix(d.Token, w.token+"-") })
	if len(doubted) == 0 {
		return
	}
	here := make(map[string]bool)
	w.mu.Lock()
	for t := range w.tasks {
		here[t.token] = true
	}
	w.mu.Unlock()
	done := w.acks.byToken() // read second: what has left the tasks is in it
	for _, d := range doubted {
		c, acked := done[d.Token]
		switch {
		case here[d.Token]:
		case acked && c.Effect == d.Effect && c.Instance == d.Instance:
			w.ackForgotten(c)
		default:
			w.returnForgotten(lease.Claim{Token: d.Token, Ref: lease.Ref{
				Part: w.conn.PartitionOf(d.Instance), Instance: d.Instance, Execution: d.Execution, Activity: d.Activity, Effect: d.Effect,
			}})
		}
	}
}

func (w *Worker) ackForgotten(c lease.Completion) {
	w.leases.Ack(c, func(a lease.Acked, err error) {
		if err != nil || a.Outcome != lease.OK {
			return
		}
		w.log.Info("completion forgotten by redis, acknowledged again", "of", c.Ref.String())
		if a.Inbox == 1 {
			w.bells.ring(c.Ref, a)
		}
	})
}

func (w *Worker) returnForgotten(g lease.Claim) {
	w.leases.Release(lease.ReleaseRequest{Claim: g, Uncounted: true}, func(o lease.Outcome, err error) {
		if err == nil && o == lease.OK {
			w.log.Info("claim without its activity returned", "of", g.Ref.String())
		}
	})
}
