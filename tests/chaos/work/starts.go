package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// The kinds that have start options, secret payloads, or batches.
var (
	delayed = Kind{
		Name: "delayed", Weight: 2, Handle: handle("delayed"), Code: chain, start: startWith("delayed", client.After(500*time.Millisecond)),
		Want: func(in Input) []string { return []string{strconv.Itoa(2 * in.N)} },
	}
	expiring = Kind{
		Name: "expire", Weight: 2, Handle: handle("expire"), Code: victim, start: startWith("expire", client.RunTimeout(300*time.Millisecond)),
		Want: want(Expired),
	}
	reused = Kind{
		Name: "reuse", Weight: 2, Handle: handle("reuse"), Code: reuse, start: startReused, Want: want("replaced"),
		Rolled: Declined, // the stream is read again from the first start, after the client received the result of the second
	}
	sealed = Kind{
		Name: "sealed", Weight: 3, Handle: handle("sealed"), Code: seal, start: startSealed,
		Want: func(in Input) []string { return []string{in.Secret} },
	}
	flock = Kind{
		Name: "flock", Weight: 2, Handle: handle("flock"), Code: flocks, start: startFlock,
		Want:   func(in Input) []string { return []string{fmt.Sprintf("%d birds", in.N)} },
		Rolled: sentTwice, // a lost page is decided again
	}
)

func startWith(name string, opts ...client.StartOption) func(context.Context, *client.Client, string, Input) (result, error) {
	return func(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
		run, err := client.Start(ctx, c, handle(name), id, in, append(opts, client.MessageID("start"))...)
		if err != nil {
			return nil, err
		}
		return run.Result, nil
	}
}

// reuse fails, unless its instance has replaced another one.
func reuse(ctx *pawl.Context, in Input) (string, error) {
	if _, err := Step.Call(ctx, in.N); err != nil || in.Round > 0 {
		return "replaced", err
	}
	return "", ErrDeclined
}

// startReused starts an instance, replaces it after its failure, and starts its id again, which must be rejected.
func startReused(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	first, err := client.Start(ctx, c, handle("reuse"), id, in, client.MessageID("start"))
	if err != nil {
		return nil, err
	}
	if text, err := first.Result(ctx); err != nil && !errors.Is(err, ErrDeclined) {
		return nil, err
	} else if err == nil {
		return known(text), nil // a previous process of this client has replaced it
	}
	in.Round = 1
	second, err := client.Start(ctx, c, handle("reuse"), id, in, client.AfterFailure, client.MessageID("replace"))
	if err != nil {
		return nil, err
	}
	text, err := second.Result(ctx)
	if errors.Is(err, client.ErrIDTaken) { // the first instance runs again after a rollback, so another start is required
		second, err = client.Start(ctx, c, handle("reuse"), id, in, client.AfterFailure)
		if err == nil {
			text, err = second.Result(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	third, err := client.Start(ctx, c, handle("reuse"), id, in, client.Reject, client.MessageID("reject"))
	if err != nil {
		return nil, err
	}
	if err := third.WaitStarted(ctx); err == nil {
		return known("a start with an id that is in use was not rejected"), nil
	} else if !errors.Is(err, client.ErrIDTaken) {
		return nil, err
	}
	return known(text), nil
}

var (
	secrets = pawl.NewStatus[string]()
	whisper = pawl.NewEvent[string]("whisper")
)

// seal has a secret in an event, in the input, the failure and the result of an activity, in a status, and in its result.
func seal(ctx *pawl.Context, in Input) (string, error) {
	text, err := whisper.Receive(ctx)
	if err != nil {
		return "", err
	}
	if err := secrets.Set(ctx, text); err != nil {
		return "", err
	}
	got, err := Echo.Call(ctx, text, pawl.Retry{Attempts: 2, Initial: 10 * time.Millisecond})
	if err == nil && got != in.Secret {
		return "", fmt.Errorf("received %s instead of %s", got, in.Secret)
	}
	return got, err
}

func startSealed(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Start(ctx, c, handle("sealed"), id, in, client.MessageID("start"))
	if err == nil {
		err = client.Send(ctx, c, whisper, id, in.Secret, client.MessageID("whisper"))
	}
	if err != nil {
		return nil, err
	}
	return run.Result, nil
}

var (
	// Bird is a child of a flock.
	Bird    = pawl.NewOrchestration[Input, bool]("bird")
	release = pawl.NewEvent[int]("release")
)

const sentTwice = "a batch has sent its event twice"

// flocks waits for its children, which a batch releases with an event.
func flocks(ctx *pawl.Context, in Input) (string, error) {
	birds := make([]*pawl.Future[bool], in.N)
	for i := range birds {
		birds[i] = Bird.Start(ctx, in)
	}
	once, err := pawl.All(ctx, birds...)
	for _, ok := range once {
		if !ok {
			return sentTwice, err
		}
	}
	return fmt.Sprintf("%d birds", len(once)), err
}

// flies reports whether the batch that released it has sent its event exactly once.
func flies(ctx *pawl.Context, in Input) (bool, error) {
	first, err := release.Receive(ctx)
	if err != nil {
		return false, err
	}
	if _, err := Step.Call(ctx, in.N); err != nil {
		return false, err
	}
	more, err := release.Drain(ctx)
	return !slices.Contains(more, first), err
}

// startFlock starts batches until all birds are released. A batch reaches only the birds that exist when it reads their
// list.
func startFlock(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Start(ctx, c, handle("flock"), id, in, client.MessageID("start"))
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		if err := Release(ctx, c, id, n); err != nil {
			return nil, err
		}
		soon, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		text, err := run.Result(soon)
		stop()
		if err == nil {
			return known(text), nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// Release runs the batch with number n, which releases the birds of a flock.
func Release(ctx context.Context, c *client.Client, id string, n int) error {
	batch, err := c.StartBatch(ctx, fmt.Sprintf("batch-%s-%d", id, n), client.Batch{
		Verb: client.BatchEvent, Where: fmt.Sprintf("parent = '%s' and orchestration = bird", id), Event: release.Name(), Data: []byte(strconv.Itoa(n)),
	}, client.MessageID("start"))
	if err == nil {
		_, err = batch.Result(ctx)
	}
	return err
}
