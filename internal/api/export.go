package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

// Export is an instance with the histories of all executions that still exist. Version is show.ExportVersion.
type Export struct {
	Version    int         `json:"pawl_export"`
	Exported   string      `json:"exported"`
	Instance   Instance    `json:"instance"`
	Executions []Execution `json:"executions"` // in ascending order, at most two
}

// Execution is the history of an execution.
type Execution struct {
	Execution uint64         `json:"execution"`
	Events    []HistoryEvent `json:"events"`
}

// ExportInstance reads an instance with its histories. A running instance may continue in the meantime: its histories are then longer than the
// description reports, and each is complete up to its last event. If both executions are removed before they are read, it retries once.
func ExportInstance(ctx context.Context, cl *client.Client, id string) (*Export, error) {
	for retried := false; ; retried = true {
		d, err := cl.Describe(ctx, id)
		if err != nil {
			return nil, err
		}
		out, err := exportOf(ctx, cl, id, d)
		switch {
		case err != nil:
			return nil, err
		case len(out.Executions) > 0, retried && d.Events == 0: // without events, it has not begun
			return out, nil
		case retried:
			return nil, fmt.Errorf("instance %s: execution %d and the one before were removed while they were read", id, d.Execution)
		}
	}
}

func exportOf(ctx context.Context, cl *client.Client, id string, d client.Description) (*Export, error) {
	out := &Export{Version: show.ExportVersion, Exported: Timestamp(time.Now()), Instance: InstanceOf(d, nil)}
	for n := max(d.Execution, 2) - 1; n <= d.Execution; n++ {
		x := Execution{Execution: n}
		for e, err := range cl.History(ctx, id, n) {
			switch {
			case err == nil:
				line, err := HistoryEventOf(id, e)
				if err != nil {
					return nil, err
				}
				x.Events = append(x.Events, line)
			case len(x.Events) == 0 && errors.Is(err, client.ErrNotFound): // it has not begun, or was removed
			default:
				return nil, err
			}
		}
		if len(x.Events) > 0 {
			out.Executions = append(out.Executions, x)
		}
	}
	return out, nil
}
