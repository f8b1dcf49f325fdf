package verdict

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawlrun/pawl/tests/chaos/work"
)

// ballot is the state of a ballot in the model. Operations are linearizable if there is an order in which each takes effect
// between its call and its return, and every describe returns the state produced by the operations before it.
//
// The PubAck of a start, a send or a cancellation is returned when the stream has stored the message. It takes effect later,
// when a turn is committed, so these operations take effect at any time after their call. A describe reads the store: it
// takes effect between its call and its return, even while a paused orchestrator is resumed, or partitions change owners.
type ballot struct {
	status string // empty: has not begun
	votes  int
}

func (b ballot) after(op work.Op) (bool, ballot) {
	running := b.status == "running"
	switch op.Do {
	case "start":
		if b.status == "" {
			return true, ballot{status: "running"}
		}
		return true, b
	case "send":
		if b.status == "" {
			return false, b // an event that arrived before the start takes effect after it
		}
		if running {
			if b.votes++; b.votes == work.BallotVotes {
				b.status = "completed"
			}
		}
		return true, b
	case "cancel":
		if running {
			b.status = "cancelled"
		}
		return true, b
	}
	return op.Status == b.status && (b.status == "" || op.Votes == b.votes), b
}

// Linear checks the operations on every ballot, and returns the findings and the number of checked ballots. undecided is the
// number of ballots whose check exceeded the time limit.
func Linear(ops []work.Op, limit time.Duration) (findings []string, checked, undecided int) {
	byInstance := map[string][]work.Op{}
	started := map[string]bool{}
	for _, op := range ops {
		started[op.Instance] = started[op.Instance] || op.Do == "start"
		byInstance[op.Instance] = append(byInstance[op.Instance], op)
	}
	model := porcupine.Model{
		Init: func() any { return ballot{} },
		Step: func(state, in, _ any) (bool, any) {
			return state.(ballot).after(in.(work.Op))
		},
	}
	for _, id := range slices.Sorted(maps.Keys(started)) {
		if !started[id] {
			continue // its events wait for a start
		}
		switch porcupine.CheckOperationsTimeout(model, history(byInstance[id]), limit) {
		case porcupine.Illegal:
			findings = append(findings, id+": no order of its operations explains what describe returned")
		case porcupine.Unknown:
			undecided++
		case porcupine.Ok:
		}
		checked++
	}
	return findings, checked, undecided
}

func history(ops []work.Op) []porcupine.Operation {
	clients := map[string]int{}
	var out []porcupine.Operation
	for _, op := range ops {
		if op.Do == "describe" && op.Return == 0 {
			continue
		}
		if _, ok := clients[op.Client]; !ok {
			clients[op.Client] = len(clients)
		}
		end := op.Return
		if op.Do != "describe" {
			end = math.MaxInt64
		}
		out = append(out, porcupine.Operation{ClientId: clients[op.Client], Input: op, Call: op.Call, Return: end})
	}
	return out
}
