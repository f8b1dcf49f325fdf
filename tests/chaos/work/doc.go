// Package work is the workload of the fault campaign: orchestrations that use the features of Pawl, activities that record
// every run in a ledger outside of Pawl, and the calls that clients make. All of it is derived from the id of an instance,
// so the checker derives the permitted results from the id.
//
// An id has the form KIND-CLIENT-NUMBER, such as mail-c1-0042. Kinds lists the kinds.
package work

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// Input is the input of every orchestration of the campaign.
type Input struct {
	N      int    `json:"n"`
	Round  int    `json:"round,omitempty"`  // number of previous executions
	Sum    int    `json:"sum,omitempty"`    // carried from execution to execution
	Tenant string `json:"tenant,omitempty"` // key of the limit of Seat
	Secret string `json:"secret,omitempty"` // begins with Canary
}

// Canary is the prefix of every payload that must not be readable at rest.
const Canary = "canary-4f1d9c0e7b-"

// tenant is the attribute by which instances are counted.
var tenant = pawl.NewAttribute[string]("tenant")

// Kind is a kind of instance: its code, the calls that a client makes, and its permitted results.
type Kind struct {
	Name   string
	Weight int // share of this kind in the sum of all weights
	Handle pawl.Orchestration[Input, string]
	Code   func(*pawl.Context, Input) (string, error) // nil: a built-in orchestration
	Events int                                        // number of numbered events that the client sends; -1: Input.N
	Cancel bool                                       // the client cancels the instance
	Want   func(in Input) []string
	Rolled string // outcome that is also permitted after a rollback of Redis

	start  func(ctx context.Context, c *client.Client, id string, in Input) (result, error) // nil: start Handle
	attach func(c *client.Client, id string) result                                         // nil: attach to an instance of Handle
}

// result waits for a result.
type result = func(context.Context) (string, error)

// Start starts the instance with an id, and returns a function that waits for its result. Repeating it has no effect.
func (k *Kind) Start(ctx context.Context, c *client.Client, id string) (result, error) {
	if k.start != nil {
		return k.start(ctx, c, id, InputOf(id))
	}
	in := InputOf(id)
	run, err := client.Start(ctx, c, k.Handle, id, in, client.MessageID("start"), client.With(tenant.Is(in.Tenant)))
	if err != nil {
		return nil, err
	}
	return run.Result, nil
}

// Result waits for the result of the existing instance with an id.
func (k *Kind) Result(ctx context.Context, c *client.Client, id string) (string, error) {
	if k.attach != nil {
		return k.attach(c, id)(ctx)
	}
	return client.Attach(c, k.Handle, id).Result(ctx)
}

// InputOf returns the input of the instance with an id.
func InputOf(id string) Input {
	if rest, ok := strings.CutPrefix(id, "listener-"); ok { // a listener has the input of its pair
		id = "pair-" + rest
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	n := h.Sum32()
	return Input{N: 1 + int(n%5), Tenant: fmt.Sprintf("tenant-%d", n/7%4), Secret: Canary + id}
}

// KindOf returns the kind of the instance with an id, or nil if the id does not belong to the campaign.
func KindOf(id string) *Kind {
	name, _, _ := strings.Cut(id, "-")
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	return nil
}

// Kinds returns all kinds.
func Kinds() []Kind { return kinds }

// EventsOf returns the number of events that the client sends to an instance of the kind.
func (k *Kind) EventsOf(in Input) int {
	if k.Events < 0 {
		return in.N
	}
	return k.Events
}
