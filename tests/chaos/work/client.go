package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// Call is a line in the log of a client.
type Call struct {
	At      time.Time `json:"at"`
	ID      string    `json:"id"`
	Call    string    `json:"call"` // intend, start, send, cancel or result
	Outcome string    `json:"outcome,omitempty"`
	Error   string    `json:"error,omitempty"` // error of an attempt that is repeated
}

// Values of Call.Call.
const (
	Intend = "intend" // the instance is about to be started
	Start  = "start"  // the start was accepted
	Send   = "send"   // an event was accepted
	Cancel = "cancel" // the cancellation was accepted
	Result = "result" // the result was received
)

// Client starts instances, sends them events, cancels them and waits for their results. It writes a line to its log before
// and after each call. A client that is restarted after a kill repeats, with the same message ids, all calls for every
// instance without a result in its log, as a real service would.
type Client struct {
	Name        string
	Client      *client.Client
	Log         string // path of the log
	Quit        string // path: once the file exists, the client starts no further instances. A signal could arrive before its handler is installed
	Outstanding int    // maximum number of outstanding instances
	Rate        int    // maximum number of starts per second
	Seed        uint64

	mu  sync.Mutex
	out *os.File
}

// Run works until the file Quit exists, and then until it has the results of all instances that it has started, or until ctx
// ends.
func (c *Client) Run(ctx context.Context) error {
	unfinished, next, err := Unfinished(c.Log)
	if err != nil {
		return err
	}
	if c.out, err = os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer func() { _ = c.out.Close() }()
	var wg sync.WaitGroup
	defer wg.Wait()
	operating, stop := context.WithCancel(ctx)
	defer stop()
	c.startBallotClients(operating, &wg)
	slots := make(chan struct{}, c.Outstanding)
	begin := func(id string) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c.instance(ctx, id)
		})
	}
	for _, id := range unfinished {
		begin(id)
	}
	rng := rand.New(rand.NewPCG(c.Seed, uint64(next)))
	tick := time.NewTicker(time.Second / time.Duration(c.Rate))
	defer tick.Stop()
	for ; ; next++ {
		select {
		case <-tick.C:
			if _, err := os.Stat(c.Quit); err == nil {
				return nil
			}
			begin(fmt.Sprintf("%s-%s-%05d", choose(rng), c.Name, next))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// choose returns the name of a random kind.
func choose(rng *rand.Rand) string {
	sum := 0
	for _, k := range kinds {
		sum += k.Weight
	}
	n := rng.IntN(sum)
	for _, k := range kinds {
		if n -= k.Weight; n < 0 {
			return k.Name
		}
	}
	return kinds[0].Name
}

// instance makes all calls for one instance.
func (c *Client) instance(ctx context.Context, id string) {
	k, in := KindOf(id), InputOf(id)
	c.log(Call{ID: id, Call: Intend})
	var wait result
	if !c.until(ctx, id, Start, func(ctx context.Context) (err error) {
		wait, err = k.Start(ctx, c.Client, id)
		return err
	}) {
		return
	}
	for n := range k.EventsOf(in) {
		if !c.until(ctx, id, Send, func(ctx context.Context) error {
			return client.Send(ctx, c.Client, Numbered, id, n+1, client.MessageID(fmt.Sprintf("event-%d", n+1)))
		}) {
			return
		}
	}
	if k.Cancel {
		if !c.until(ctx, id, Cancel, func(ctx context.Context) error {
			return c.Client.Cancel(ctx, id, "the campaign cancels it", client.MessageID("cancel"))
		}) {
			return
		}
	}
	var outcome string
	if c.until(ctx, id, "", func(ctx context.Context) error {
		result, err := wait(ctx)
		if err != nil && ctx.Err() != nil {
			return err
		}
		outcome = Outcome(result, err)
		return nil
	}) {
		c.log(Call{ID: id, Call: Result, Outcome: outcome})
	}
}

// Outcome returns the result of an instance, or a text for how it ended without one.
func Outcome(result string, err error) string {
	switch {
	case err == nil:
		return result
	case errors.Is(err, ErrDeclined):
		return Declined
	case errors.Is(err, pawl.ErrRunTimeout):
		return Expired
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return "error " + err.Error()
}

// until repeats a call until it succeeds, and reports whether it succeeded before ctx ended.
func (c *Client) until(ctx context.Context, id, call string, try func(context.Context) error) bool {
	for {
		attempt, stop := context.WithTimeout(ctx, 20*time.Second)
		err := try(attempt)
		stop()
		if err == nil {
			if call != "" {
				c.log(Call{ID: id, Call: call})
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if errors.Is(err, pawl.ErrBadID) {
			panic(err)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			c.log(Call{ID: id, Call: call, Error: err.Error()})
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

func (c *Client) log(l Call) {
	l.At = time.Now()
	b, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(append(b, '\n')); err != nil {
		panic(err)
	}
}

// ReadCalls returns the calls of a log. A missing log has no calls.
func ReadCalls(path string) ([]Call, error) {
	all, err := readLines[Call](path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return all, err
}

// readLines returns the JSON values in the lines of a file. Lines that a kill has truncated are skipped.
func readLines[T any](path string) (all []T, err error) {
	b, err := os.ReadFile(path)
	for line := range bytes.Lines(b) {
		var v T
		if json.Unmarshal(line, &v) == nil {
			all = append(all, v)
		}
	}
	return all, err
}

// Unfinished returns the instances of a log that have no result, in the order of their starts, and the number of the next
// instance.
func Unfinished(path string) (ids []string, next int, err error) {
	calls, err := ReadCalls(path)
	if err != nil {
		return nil, 0, err
	}
	done := map[string]bool{}
	for _, c := range calls {
		done[c.ID] = done[c.ID] || c.Call == Result
	}
	for _, c := range calls {
		if finished, seen := done[c.ID]; seen {
			var n int
			if _, err := fmt.Sscanf(c.ID[strings.LastIndex(c.ID, "-")+1:], "%d", &n); err == nil {
				next = max(next, n+1)
			}
			if !finished {
				ids = append(ids, c.ID)
			}
			delete(done, c.ID)
		}
	}
	return ids, next, nil
}
