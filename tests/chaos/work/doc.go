// Package work is the workload of the fault campaign: orchestrations that use what Pawl has, activities that record every run
// in a ledger outside of Pawl, and the calls that clients make. All of it follows from an instance's id, so that the checker
// needs nothing but the id to know what the instance must have returned.
//
// An id is KIND-CLIENT-NUMBER, such as mail-c1-0042. Kinds lists the kinds.
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
	Round  int    `json:"round,omitempty"`  // executions before this one
	Sum    int    `json:"sum,omitempty"`    // carried from execution to execution
	Tenant string `json:"tenant,omitempty"` // the key of Seat's limit
	Secret string `json:"secret,omitempty"` // begins with Canary
}

// Canary begins every payload that must not be readable at rest.
const Canary = "canary-4f1d9c0e7b-"

// tenant is the attribute by which instances are counted.
var tenant = pawl.NewAttribute[string]("tenant")

// Kind is a kind of instance: the code, the calls that a client makes, and the results that are right.
type Kind struct {
	Name   string
	Weight int // how many of the sum of all weights are of this kind
	Handle pawl.Orchestration[Input, string]
	Code   func(*pawl.Context, Input) (string, error) // nil: Pawl's own
	Events int                                        // how many numbered events the client sends; -1: Input.N
	Cancel bool                                       // the client cancels the instance
	Want   func(in Input) []string
	Rolled string // after a rollback of Redis, this outcome is right, too

	start  func(ctx context.Context, c *client.Client, id string, in Input) (result, error) // nil: starts Handle
	attach func(c *client.Client, id string) result                                         // nil: to an instance of Handle
}

// result waits for a result.
type result = func(context.Context) (string, error)

// Start starts the instance with that id, and returns what waits for its result. A repetition has no effect.
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

// Result waits for the result of the instance with that id, which exists.
func (k *Kind) Result(ctx context.Context, c *client.Client, id string) (string, error) {
	if k.attach != nil {
		return k.attach(c, id)(ctx)
	}
	return client.Attach(c, k.Handle, id).Result(ctx)
}

// InputOf returns the input of the instance with that id.
func InputOf(id string) Input {
	if rest, ok := strings.CutPrefix(id, "listener-"); ok { // has the input of its pair
		id = "pair-" + rest
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	n := h.Sum32()
	return Input{N: 1 + int(n%5), Tenant: fmt.Sprintf("tenant-%d", n/7%4), Secret: Canary + id}
}

// KindOf returns the kind of the instance with that id, nil if the id is not one of the campaign's.
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

// EventsOf returns how many events the client sends to an instance of the kind.
func (k *Kind) EventsOf(in Input) int {
	if k.Events < 0 {
		return in.N
	}
	return k.Events
}
