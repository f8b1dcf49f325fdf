package work

import (
	"bufio"
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

// Ballots are instances that all clients use at the same time, so that the order of the operations on one instance can be
// checked: every client starts it, sends to it, cancels it and describes it, at random.
var (
	Ballot = pawl.NewOrchestration[Input, int]("ballot")
	Votes  = pawl.NewStatus[int]()
	vote   = pawl.NewEvent[int]("vote")
)

// BallotVotes is how many votes complete a ballot.
const BallotVotes = 10

// BallotFor is how long the clients use one ballot.
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
	Client   string `json:"client"` // one operation at a time
	N        int    `json:"n"`      // of the client, from 1
	Instance string `json:"instance"`
	Do       string `json:"do"` // start, send, cancel, describe
	Call     int64  `json:"call"`
	Return   int64  `json:"return,omitempty"` // 0: not known
	Status   string `json:"status,omitempty"` // what describe saw; empty: no instance that has begun
	Votes    int    `json:"votes,omitempty"`
}

// ballots makes operations until ctx ends. Each is logged before it is made, and again when it has returned.
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
			op.Instance, op.Do = before, "start" // if no other has started it, what was sent to it waits forever
		}
		op.Call = time.Now().UnixNano()
		if err := out.Encode(op); err != nil {
			return err
		}
		if c.operate(ctx, &op) != nil {
			continue // it may have taken effect, or may still do so
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

// twice starts the ballots of two clients that this process is besides.
func (c *Client) twice(ctx context.Context, wg *sync.WaitGroup) {
	for i := range 2 {
		name := fmt.Sprintf("%s-%d-%d", c.Name, os.Getpid(), i)
		wg.Go(func() {
			if err := c.ballots(ctx, name, fmt.Sprintf("%s.%s.ops", c.Log, name)); err != nil {
				panic(err)
			}
		})
	}
}

// ReadOps returns the operations of a log; those that have not returned, as far as the log has it, have no Return.
func ReadOps(path string) ([]Op, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []Op
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var op Op
		switch err := json.Unmarshal(lines.Bytes(), &op); {
		case err != nil: // cut short by a kill
		case op.Return != 0 && len(out) > 0:
			out[len(out)-1] = op
		default:
			out = append(out, op)
		}
	}
	return out, lines.Err()
}
