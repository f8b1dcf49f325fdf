package work

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// Ask is the update that clients send to kind "ask": 1, 2, 3, …. The answer is the number plus one, and 3 is rejected.
var Ask = pawl.NewUpdate[int, int]("ask")

// The kinds that receive requests from a client while they run.
var (
	asked = Kind{
		Name: "ask", Weight: 3, Handle: handle("ask"), Code: ask, start: startAsked,
		Want: func(in Input) []string { return []string{numbers(in.N)} },
	}
	halted = Kind{
		Name: "halt", Weight: 3, Handle: handle("halt"), Code: chain, start: startHalted,
		Want: func(in Input) []string { return []string{strconv.Itoa(2 * in.N)} },
	}
	mended = Kind{
		Name: "mend", Weight: 2, Handle: handle("mend"), Code: mend, start: startMended, Want: want("mended"),
		attach: retried,
	}
	again = Kind{
		Name: "again", Weight: 2, Handle: handle("again"), Code: chain, start: startAgain,
		Want: func(in Input) []string { return []string{strconv.Itoa(2 * in.N)} },
	}
)

// ask answers N updates, and continues as new after every second one.
func ask(ctx *pawl.Context, in Input) (string, error) {
	for n := in.Round; n < in.N; n++ {
		if n == in.Round+2 {
			in.Round = n
			return handle("ask").ContinueAsNew(ctx, in)
		}
		u, err := Ask.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		if u.Input != n+1 {
			return fmt.Sprintf("update %d was received as number %d", u.Input, n+1), nil
		}
		if _, err := Step.Call(ctx, u.Input); err != nil {
			return "", err
		}
		if u.Input == 3 {
			err = u.Reject(ctx, ErrDeclined)
		} else {
			err = u.Answer(ctx, u.Input+1)
		}
		if err != nil {
			return "", err
		}
	}
	return numbers(in.N), nil
}

// startAsked sends the updates one after another, each until it has the answer.
func startAsked(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Start(ctx, c, handle("ask"), id, in, client.MessageID("start"))
	if err != nil {
		return nil, err
	}
	for n := 1; n <= in.N; n++ {
		got, err := client.Update(ctx, c, Ask, id, n, client.UpdateID(strconv.Itoa(n)))
		switch {
		case n == 3 && errors.Is(err, ErrDeclined):
		case err != nil:
			return nil, err
		case n == 3 || got != n+1:
			return known(fmt.Sprintf("update %d was answered with %d", n, got)), nil
		}
	}
	return run.Result, nil
}

// startHalted pauses and resumes the instance. Either may fail, because the instance has ended.
func startHalted(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Start(ctx, c, handle("halt"), id, in, client.MessageID("start"))
	if err != nil {
		return nil, err
	}
	stop := client.Reason("the campaign pauses it")
	if in.N%2 == 0 {
		_, err = c.Pause(ctx, id, stop, client.Stop())
	} else {
		_, err = c.Pause(ctx, id, stop)
	}
	if err == nil || errors.Is(err, client.ErrRefused) {
		_, err = c.Resume(ctx, id)
	}
	if err != nil && !errors.Is(err, client.ErrRefused) {
		return nil, err
	}
	return run.Result, nil
}

// mend fails until it is retried. Completed work is not repeated.
func mend(ctx *pawl.Context, in Input) (string, error) {
	if _, err := Step.Call(ctx, in.N); err != nil {
		return "", err
	}
	return Fragile.Call(ctx, in.N)
}

func startMended(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	if _, err := client.Start(ctx, c, handle("mend"), id, in, client.MessageID("start")); err != nil {
		return nil, err
	}
	return retried(c, id), nil
}

// retried retries an instance whenever it has failed, until it succeeds. A retry may be lost with the writes of Redis, or be
// refused because another one arrived before it, and its start may not have been read from the stream yet.
func retried(c *client.Client, id string) result {
	return func(ctx context.Context) (string, error) {
		for {
			text, err := client.Attach(c, handle("mend"), id).Result(ctx)
			if !errors.Is(err, client.ErrNotFound) && !errors.Is(err, ErrDeclined) {
				return text, err
			}
			_, err = c.Retry(ctx, id)
			if err != nil {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return "", errors.Join(ctx.Err(), err)
				}
			}
		}
	}
}

// startAgain rewinds the instance, after it has ended, to the event that schedules its first activity, which then runs
// again.
func startAgain(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Start(ctx, c, handle("again"), id, in, client.MessageID("start"))
	if err != nil {
		return nil, err
	}
	first, err := run.Result(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Rewind(ctx, id, 2); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		second, err := client.Attach(c, handle("again"), id).Result(ctx)
		if err == nil && second != first {
			return fmt.Sprintf("first %s, then %s", first, second), nil
		}
		return second, err
	}, nil
}

// known returns a fixed result, such as that of an instance that answered a request incorrectly.
func known(text string) result {
	return func(context.Context) (string, error) { return text, nil }
}
