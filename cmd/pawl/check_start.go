package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	startCheckTimeout  = time.Second // maximum time until the start takes effect
	startCheckInterval = 10 * time.Millisecond
)

// check waits briefly until a start has taken effect. It returns an error if another instance has the id, and a note if something prevents
// the instance from running.
func (o order) check(ctx context.Context, cl *client.Client) (note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startCheckTimeout)
	defer cancel()
	tick := time.NewTicker(startCheckInterval)
	defer tick.Stop()
	for {
		d, err := cl.Describe(ctx, o.id)
		switch {
		case err == nil && d.Orchestration != "" && d.Orchestration != o.orchestration:
			since := "since " + formatSecond(d.Started) + " UTC"
			if d.Started.IsZero() {
				since = "that has not begun"
			}
			return "", fmt.Errorf("nothing was started: %s is an instance of %s %s", o.id, d.Orchestration, since)
		case err == nil && !d.StartAt.IsZero():
			return "", nil
		case err == nil && d.Stalled != "":
			return "stalled: " + d.Stalled, nil
		case err == nil && d.Orchestration != "" && d.Status != client.Pending:
			return "", o.checkInput(ctx, cl, d)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(err, client.ErrNoOwner) || err != nil && !errors.Is(err, client.ErrNotFound) {
				return "no orchestrator has answered; the start takes effect when one runs", nil
			}
			return "", nil // the instance waits at a limit, or behind a backlog
		}
	}
}

// checkInput compares the input with that of the instance's first execution, if the history of that is still kept and can be decrypted.
func (o order) checkInput(ctx context.Context, cl *client.Client, d client.Description) error {
	if o.event != "" { // delivered to a running instance, whatever its input
		return nil
	}
	for e, err := range cl.HistoryAfter(ctx, o.id, 1, 0, 1) {
		if err != nil {
			return nil // the first execution is no longer kept
		}
		if s, ok := e.Event.(*history.Started); ok && s.Payload.Type != history.TypeSealed && !sameJSON(s.Payload.Data, o.input.Data) {
			return fmt.Errorf("nothing was started: %s exists since %s UTC with another input", o.id, formatSecond(d.Started))
		}
		break
	}
	return nil
}

// sameJSON compares JSON without insignificant white space. Empty or invalid JSON equals null.
func sameJSON(a, b []byte) bool {
	compact := func(data []byte) string {
		var out bytes.Buffer
		if json.Compact(&out, data) != nil || out.Len() == 0 {
			return "null"
		}
		return out.String()
	}
	return compact(a) == compact(b)
}
