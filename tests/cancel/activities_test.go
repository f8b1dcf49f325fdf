package cancel

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
)

// Trial starts an activity that runs until its context ends, waits for Go, and then does something that cancels the activity. Try.How
// selects what.
var (
	Trial  = pawl.NewOrchestration[Try, string]("trial")
	Parent = pawl.NewOrchestration[Try, string]("parent")
	Nest   = pawl.NewOrchestration[Eggs, string]("nest")
	Late   = pawl.NewOrchestration[string, string]("late")
	Found  = pawl.NewOrchestration[string, string]("found")

	Hold          = pawl.NewActivity[string, string]("hold")
	Uncancellable = pawl.NewActivity[string, string]("uncancellable")
	Quick         = pawl.NewActivity[string, string]("quick")
	Poison        = pawl.NewActivity[string, string]("poison")
	Stray         = pawl.NewActivity[string, string]("stray")

	Go = pawl.NewEvent[string]("go")

	ErrBroken = pawl.NewError("broken")
)

// maxClaims is the number of workers that a poison activity may kill.
const maxClaims = 2

// Try is the input of Trial and Parent.
type Try struct {
	How   string
	Child string // for Parent: id of the child
}

// Eggs is the input of Nest, a chain of nested child instances.
type Eggs struct {
	Nests []string // ids of the descendants, the child first
}

func trial(ctx *pawl.Context, in Try) (string, error) {
	switch in.How {
	case "quiet":
		return "quiet", nil
	case "attempt":
		return Hold.Call(ctx, in.How, pawl.Retry{Attempts: 2, Initial: time.Millisecond}, pawl.AttemptTimeout(attemptTimeout))
	case "scope":
		return "", pawl.Scope(ctx, func(ctx *pawl.Context) error {
			Hold.Start(ctx, in.How)
			_, err := Go.Receive(ctx)
			return err
		})
	case "detached":
		err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
			Hold.Start(pawl.DetachFor(ctx, time.Millisecond), in.How)
			_, err := Go.Receive(ctx)
			return err
		})
		return after(ctx, true, err)
	case "nested":
		return nested(ctx, in)
	case "sibling":
		return pawl.Go(ctx, func(ctx *pawl.Context) (string, error) { return loses(ctx, in, "") }).Get(ctx)
	case "retried":
		held := Hold.Start(ctx, in.How, pawl.Retry{Attempts: 5, Initial: time.Millisecond}, pawl.AttemptTimeout(attemptTimeout))
		if _, err := Go.Receive(ctx); err != nil {
			return "", err
		}
		first, err := pawl.Select(ctx, held, pawl.After(ctx, time.Millisecond))
		return after(ctx, first != held, err)
	default:
		return loses(ctx, in, in.How)
	}
}

// attemptTimeout is long enough for an attempt to start and, in the trial "retried", to lose a Select.
const attemptTimeout = 8 * time.Second

// loses starts an activity and ends it as how states; by default a timer wins a Select.
func loses(ctx *pawl.Context, in Try, how string) (string, error) {
	held := Hold.Start(ctx, in.How)
	if how == "event wins" {
		first, err := pawl.Select(ctx, held, Go.Next(ctx))
		return after(ctx, first != held, err)
	}
	if how == "poison" {
		return Poison.Call(ctx, in.How)
	}
	if _, err := Go.Receive(ctx); err != nil {
		return "", err
	}
	switch how {
	case "error":
		return "", ErrBroken
	case "panic":
		panic("at the disco")
	case "limit":
		return strings.Repeat("x", 600<<10), nil
	case "many":
		for {
			if err := pawl.Sleep(ctx, time.Millisecond); err != nil {
				return "", err
			}
		}
	case "completes":
		return "done", nil
	case "continues":
		return Trial.ContinueAsNew(ctx, Try{How: "quiet"})
	case "by hand":
		held.Cancel("changed my mind")
		return after(ctx, true, nil)
	case "activity wins":
		first, err := pawl.Select(ctx, held, Quick.Start(ctx, ""))
		return after(ctx, first != held, err)
	default:
		first, err := pawl.Select(ctx, held, pawl.After(ctx, time.Millisecond))
		return after(ctx, first != held, err)
	}
}

// after lets the instance continue, so that the activity is not cancelled by the end of the instance.
func after(ctx *pawl.Context, lost bool, err error) (string, error) {
	if err != nil || !lost {
		return "", errors.Join(err, errors.New("an endless activity has won the Select"))
	}
	_, err = Go.Receive(ctx)
	return "lost", err
}

// nested cancels a sibling, by losing a Select, while the sibling waits in a Select itself.
func nested(ctx *pawl.Context, in Try) (string, error) {
	inner := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) {
		_, err := pawl.Select(ctx, Hold.Start(ctx, in.How), pawl.After(ctx, time.Hour))
		return "", err
	})
	first, err := pawl.Select(ctx, inner, Go.Next(ctx))
	return after(ctx, first != inner, err)
}

func parent(ctx *pawl.Context, in Try) (string, error) {
	Trial.Start(ctx, Try{How: "client"}, pawl.ID(in.Child))
	if _, err := Go.Receive(ctx); err != nil {
		return "", err
	}
	if in.How == "error" {
		return "", ErrBroken
	}
	return "done", nil
}

func nest(ctx *pawl.Context, in Eggs) (string, error) {
	if len(in.Nests) == 0 {
		return Hold.Call(ctx, "egg")
	}
	return Nest.Call(ctx, Eggs{Nests: in.Nests[1:]}, pawl.ID(in.Nests[0]))
}

// late cancels an activity in a turn that lasts until the file exists. Real orchestrations must not do this.
func late(ctx *pawl.Context, file string) (string, error) {
	a := Uncancellable.Start(ctx, file+".activity")
	if _, err := Go.Receive(ctx); err != nil {
		return "", err
	}
	if err := os.WriteFile(file+".turning", nil, 0o600); err != nil {
		return "", err
	}
	wait(context.Background(), file+".turn")
	a.Cancel("too late")
	return after(ctx, true, nil)
}

func found(ctx *pawl.Context, file string) (string, error) { return Stray.Call(ctx, file) }

func orchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{
		Trial.Do(trial), Parent.Do(parent), Nest.Do(nest), Late.Do(late), Found.Do(found),
	}
}

// line is an entry of the ledger, written by an activity or its worker.
type line struct {
	What     string             `json:"what"` // began, cancelled, finished, counts
	Instance string             `json:"instance,omitempty"`
	Activity uint64             `json:"activity,omitempty"`
	Attempt  uint32             `json:"attempt,omitempty"`
	Claim    uint32             `json:"claim,omitempty"`
	Worker   string             `json:"worker"`
	Cause    *pawl.Cancelled    `json:"cause,omitempty"`    // cause of the end of the context
	Canceled bool               `json:"canceled,omitempty"` // errors.Is(cause, context.Canceled)
	At       time.Time          `json:"at"`
	Counts   map[string]float64 `json:"counts,omitempty"`
}

// ledger is the file in which activities record their steps.
type ledger string

// write appends a line with a single write, so that the lines of different processes do not mix.
func (l ledger) write(s line) error {
	s.At = time.Now()
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(string(l), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// record writes a step of an activity.
func (l ledger) record(ctx context.Context, what string) error {
	i := pawl.Info(ctx)
	s := line{What: what, Instance: i.Instance, Activity: i.Activity, Attempt: i.Attempt, Claim: i.Claim, Worker: i.Worker}
	cause := context.Cause(ctx)
	s.Canceled = errors.Is(cause, context.Canceled) && errors.Is(ctx.Err(), context.Canceled)
	errors.As(cause, &s.Cause)
	return l.write(s)
}

func (l ledger) activities(only []string) []pawl.ActivityBinding {
	all := map[string]pawl.ActivityBinding{
		"hold": Hold.Do(l.hold), "uncancellable": Uncancellable.Do(l.uncancellable), "quick": Quick.Do(l.quick), "poison": Poison.Do(l.poison), "stray": Stray.Do(l.stray),
	}
	var out []pawl.ActivityBinding
	for name, b := range all {
		if len(only) == 0 && name != "poison" || slices.Contains(only, name) {
			out = append(out, b)
		}
	}
	return out
}

// hold returns when its context ends. The second attempt of the trial "attempt" returns at once.
func (l ledger) hold(ctx context.Context, how string) (string, error) {
	if err := l.record(ctx, "began"); err != nil || how == "attempt" && pawl.Info(ctx).Attempt > 1 {
		return "", err
	}
	<-ctx.Done()
	return "", errors.Join(context.Cause(ctx), l.record(ctx, "cancelled"))
}

// uncancellable ignores its context, and returns a result when the file exists.
func (l ledger) uncancellable(ctx context.Context, file string) (string, error) {
	if err := l.record(ctx, "began"); err != nil {
		return "", err
	}
	wait(context.Background(), file)
	return "finished", l.record(ctx, "finished")
}

func (l ledger) quick(context.Context, string) (string, error) { return "quick", nil }

// poison kills its worker.
func (l ledger) poison(ctx context.Context, _ string) (string, error) {
	_ = l.record(ctx, "began")
	os.Exit(1)
	return "", nil
}

// stray returns when its context ends or the file exists, on the first claim. On a later claim it returns at once.
func (l ledger) stray(ctx context.Context, file string) (string, error) {
	if err := l.record(ctx, "began"); err != nil {
		return "", err
	}
	if pawl.Info(ctx).Claim > 1 {
		return "found", nil
	}
	wait(ctx, file)
	return "ghost", l.record(ctx, "cancelled")
}

// wait waits until a file exists or the context ends.
func wait(ctx context.Context, file string) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
