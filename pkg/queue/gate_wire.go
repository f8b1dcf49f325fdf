package queue

import "github.com/pawlrun/pawl/pkg/history"

func wireWord(w *wire, x *Word) {
	w.record(4, func(w *wire) {
		number(w, &x.Kind)
		w.str(&x.Gate)
		w.str(&x.Member)
		w.int(&x.At)
	})
}

func encodeWords(ws []Word) []byte {
	return encode(1, func(w *wire) { list(w, &ws, wireWord) })
}

const policyFields = 9

func wirePolicy(w *wire, p *history.Policy) {
	number(w, &p.Concurrency)
	number(w, &p.Rate)
	w.int(&p.RateWindow)
	w.uint(&p.Quota)
	w.int(&p.QuotaWindow)
	w.str(&p.Key)
	number(w, &p.QueueLimit)
	w.int(&p.QueueTimeout)
	w.bool(&p.Reject)
}

func wireGateStats(w *wire, g *GateStats) {
	w.record(17, func(w *wire) {
		w.str(&g.Gate)
		w.str(&g.Action)
		w.str(&g.Key)
		w.uint(&g.Waiting)
		w.uint(&g.Holding)
		w.uint(&g.MaxConcurrent)
		w.int(&g.Oldest)
		w.uint(&g.Entered)
		w.uint(&g.Completed)
		w.uint(&g.Rejected)
		w.uint(&g.TimedOut)
		w.uint(&g.Withdrawn)
		w.uint(&g.Cleared)
		w.int(&g.LimitedUntil)
		w.bool(&g.Deadlocked)
		w.record(policyFields, func(w *wire) { wirePolicy(w, &g.Policy) })
		w.count(&g.Keys)
	})
}

func wireGateWaiter(w *wire, g *GateWaiter) {
	w.record(5, func(w *wire) {
		w.uint(&g.Position)
		w.str(&g.Instance)
		w.uint(&g.Execution)
		w.uint(&g.Event)
		w.int(&g.Since)
	})
}

func wireLevelPolicy(w *wire, l *LevelPolicy) {
	w.record(2, func(w *wire) {
		w.str(&l.Level)
		w.record(policyFields, func(w *wire) { wirePolicy(w, &l.Policy) })
	})
}

func wireGateWait(w *wire, g *GateWait) {
	w.record(12, func(w *wire) {
		w.uint(&g.Event)
		w.str(&g.Gate)
		w.str(&g.Action)
		w.str(&g.Key)
		w.uint(&g.Position)
		w.uint(&g.Length)
		w.uint(&g.Holding)
		w.record(policyFields, func(w *wire) { wirePolicy(w, &g.Policy) })
		w.int(&g.Since)
		w.int(&g.LimitedUntil)
		w.bool(&g.Deadlocked)
		w.bool(&g.In)
	})
}
