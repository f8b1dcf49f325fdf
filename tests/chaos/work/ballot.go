package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// Ballots are instances that all clients use concurrently, so that the order of operations on one instance can be checked:
// every client starts, sends to, cancels and describes them at random.
var (
	Ballot = pawl.NewOrchestration[Input, int]("ballot")
	Votes  = pawl.NewStatus[int]()
	vote   = pawl.NewEvent[int]("vote")
)

// BallotVotes is the number of votes that complete a ballot.
const BallotVotes = 10

// BallotFor is the time for which the clients use one ballot.
const BallotFor = 4 * time.Second

func ballot(ctx *pawl.Context, _ Input) (int, error) {
	if err := Votes.Set(ctx, 0); err != nil {
		return 0, err
	}
	for n := range BallotVotes {
		if _, err := vote.Receive(ctx); err != nil {
			return n, err
		}
		if err := Votes.Set(ctx, n+1); err != nil {
			return n, err
		}
	}
	return BallotVotes, nil
}

// Op is an operation on a ballot.
type Op struct {
	Client   string `json:"client"` // performs one operation at a time
	N        int    `json:"n"`      // number within the client, from 1
	Instance string `json:"instance"`
	Do       string `json:"do"` // start, send, cancel or describe
	Call     int64  `json:"call"`
	Return   int64  `json:"return,omitempty"` // 0: unknown
	Status   string `json:"status,omitempty"` // status returned by describe; empty: no instance, or it has not begun
	Votes    int    `json:"votes,omitempty"`
}

// ballots performs operations until ctx ends. Each is logged before its call and after its return.
func (c *Client) ballots(ctx context.Context, name, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	out := json.NewEncoder(f)
	rng := rand.New(rand.NewPCG(c.Seed, uint64(time.Now().UnixNano())))
	instance := ""
	for n := 1; ; n++ {
		pause := time.NewTimer(time.Duration(10+rng.IntN(150)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
		before := instance
		instance = fmt.Sprintf("ballot-%d", time.Now().UnixNano()/int64(BallotFor))
		op := Op{
			Client: name, N: n, Instance: instance,
			Do: []string{"start", "send", "send", "cancel", "describe", "describe", "describe", "describe"}[rng.IntN(8)],
		}
		if op.Do == "cancel" && rng.IntN(5) > 0 {
			op.Do = "send"
		}
		if before != instance && before != "" {
			op.Instance, op.Do = before, "start" // otherwise earlier events would wait forever if no other client starts it
		}
		op.Call = time.Now().UnixNano()
		if err := out.Encode(op); err != nil {
			return err
		}
		if c.operate(ctx, &op) != nil {
			continue // its effect is unknown
		}
		op.Return = time.Now().UnixNano()
		if err := out.Encode(op); err != nil {
			return err
		}
	}
}

func (c *Client) operate(ctx context.Context, op *Op) error {
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	switch op.Do {
	case "start":
		_, err := client.Start(ctx, c.Client, Ballot, op.Instance, Input{})
		return err
	case "send":
		return client.Send(ctx, c.Client, vote, op.Instance, 1)
	case "cancel":
		return c.Client.Cancel(ctx, op.Instance, "enough")
	}
	d, err := c.Client.Describe(ctx, op.Instance)
	if errors.Is(err, client.ErrNotFound) || err == nil && d.Status == client.Pending {
		return nil
	} else if err != nil {
		return err
	}
	op.Status = string(d.Status)
	if d.CustomStatus == nil {
		return nil
	}
	return json.Unmarshal(d.CustomStatus.Value.Data, &op.Votes)
}

// startBallotClients runs the ballot operations of two further clients in this process.
func (c *Client) startBallotClients(ctx context.Context, wg *sync.WaitGroup) {
	for i := range 2 {
		name := fmt.Sprintf("%s-%d-%d", c.Name, os.Getpid(), i)
		wg.Go(func() {
			if err := c.ballots(ctx, name, fmt.Sprintf("%s.%s.ops", c.Log, name)); err != nil {
				panic(err)
			}
		})
	}
}

// ReadOps returns the operations of a log. Operations without a logged return have no Return.
func ReadOps(path string) ([]Op, error) {
	all, err := readLines[Op](path)
	var out []Op
	for _, op := range all {
		if op.Return != 0 && len(out) > 0 {
			out[len(out)-1] = op
		} else {
			out = append(out, op)
		}
	}
	return out, err
}
