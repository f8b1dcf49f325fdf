package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/client"
)

// operate is the body of an operator's request.
type operate struct {
	Reason    string `json:"reason,omitempty"`
	Stop      bool   `json:"stop,omitempty"`       // pause: also cancel running activities
	FromStart bool   `json:"from_start,omitempty"` // retry: from the beginning
	To        uint64 `json:"to,omitempty"`         // rewind: the last event that is kept
	DryRun    bool   `json:"dry_run,omitempty"`    // rewind and retry: only return the plan
}

func operateOperations() []operation {
	const instance = root + "/instances/{id}"
	post := func(verb, id, summary string, serve func(*call) (answer, error)) operation {
		return operation{
			method: http.MethodPost, path: instance + "/" + verb, id: id, role: access.Operator, serve: serve, keyed: true, summary: summary,
			request: operate{}, optional: true, replies: map[int]any{200: api.Operated{}, 202: api.Accepted{}},
		}
	}
	return []operation{
		post("pause", "pauseInstance", "Pause an instance; with stop its activities are cancelled, and run again when it is resumed.", pauseInstance),
		post("resume", "resumeInstance", "Resume a paused instance.", resumeInstance),
		post("terminate", "terminateInstance", "End an instance without its code, and keep its history.", terminateInstance),
		post("rewind", "rewindInstance", "Rewind an instance to an earlier event; dry_run returns the plan.", rewindInstance),
		{
			method: http.MethodPost, path: instance + "/requeue", id: "requeueInstance", role: access.Operator, serve: requeueInstance,
			summary: "Retry a stalled instance now.", request: reason{}, optional: true, replies: map[int]any{204: nil},
		},
		{
			method: http.MethodPost, path: instance + "/import", id: "importInstance", role: access.Admin, serve: importInstance, keyed: true,
			summary: "Create an instance with an unused id from an export; with continue, it continues if it had not ended.",
			request: importBody{}, replies: map[int]any{200: api.Operated{}, 202: api.Accepted{}},
		},
		get(root+"/refused", "listRefused", listRefused, api.RefusedList{},
			"List inputs that could not be used, with the reason."),
		{
			method: http.MethodDelete, path: root + "/refused/{id}", id: "dropRefused", role: access.Operator, serve: dropRefused,
			summary: "Remove the notes about refused inputs of an id; an instance with that id is not affected.", replies: map[int]any{204: nil},
		},
		post("retry", "retryInstance", "Retry a failed instance from before its failure, or from its start; dry_run returns the plan.", retryInstance),
	}
}

func pauseInstance(c *call) (answer, error) {
	return c.operate(func(ctx context.Context, id string, o operate, opts []client.OperateOption) (client.Operated, error) {
		if o.Stop {
			opts = append(opts, client.Stop())
		}
		return c.client.Pause(ctx, id, opts...)
	})
}

func resumeInstance(c *call) (answer, error) {
	return c.operate(func(ctx context.Context, id string, _ operate, opts []client.OperateOption) (client.Operated, error) {
		return c.client.Resume(ctx, id, opts...)
	})
}

func terminateInstance(c *call) (answer, error) {
	return c.operate(func(ctx context.Context, id string, _ operate, opts []client.OperateOption) (client.Operated, error) {
		return c.client.Terminate(ctx, id, opts...)
	})
}

func rewindInstance(c *call) (answer, error) {
	return c.operate(func(ctx context.Context, id string, o operate, opts []client.OperateOption) (client.Operated, error) {
		if o.To == 0 {
			return client.Operated{}, badRequest("to must be an event id of the history, from 1")
		}
		if err := c.mayRepeat(ctx, id); err != nil {
			return client.Operated{}, err
		}
		return c.client.Rewind(ctx, id, o.To, opts...)
	})
}

func retryInstance(c *call) (answer, error) {
	return c.operate(func(ctx context.Context, id string, o operate, opts []client.OperateOption) (client.Operated, error) {
		if o.FromStart {
			opts = append(opts, client.FromStart())
		}
		if err := c.mayRepeat(ctx, id); err != nil {
			return client.Operated{}, err
		}
		return c.client.Retry(ctx, id, opts...)
	})
}

// mayRepeat refuses to retry or rewind a batch for a user who is not an admin: its verb may be purge, which requires an
// admin.
func (c *call) mayRepeat(ctx context.Context, id string) error {
	if c.user.Role >= access.Admin {
		return nil
	}
	d, err := c.client.Describe(ctx, id)
	if err == nil && d.Orchestration == message.BatchName {
		return c.repeatsBatches()
	}
	return err
}

func (c *call) repeatsBatches() error {
	return &access.Refusal{
		Status: http.StatusForbidden, Detail: fmt.Sprintf("%s has the role %s; retrying or rewinding a batch requires admin", c.user.Name, c.user.Role),
		Do: "start another batch, or add orchestration != " + message.BatchName + " to the filter",
	}
}

func requeueInstance(c *call) (answer, error) {
	if err := c.decode(new(reason)); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, c.client.Requeue(c.Context(), c.PathValue("id"))
}

// maxRefused limits the length of the list. Each partition keeps up to a hundred notes.
const maxRefused = 1000

func listRefused(c *call) (answer, error) {
	list := api.RefusedList{Refused: []api.Refused{}}
	for r, err := range c.client.Refused(c.Context()) {
		if err != nil {
			return answer{}, err
		}
		if list.Refused = append(list.Refused, api.RefusedOf(r)); len(list.Refused) == maxRefused {
			break
		}
	}
	return answer{body: list}, nil
}

func dropRefused(c *call) (answer, error) {
	return answer{status: http.StatusNoContent}, c.client.DropRefused(c.Context(), c.PathValue("id"))
}

// operate decodes the body and calls request, or returns the plan of a dry run.
func (c *call) operate(request func(context.Context, string, operate, []client.OperateOption) (client.Operated, error)) (answer, error) {
	var o operate
	if err := c.decode(&o); err != nil {
		return answer{}, err
	}
	shared, err := c.options()
	if err != nil {
		return answer{}, err
	}
	opts := []client.OperateOption{client.Reason(o.Reason)}
	for _, s := range shared {
		opts = append(opts, s)
	}
	id := c.PathValue("id")
	ctx, cancel := context.WithTimeout(c.Context(), requestTime)
	defer cancel()
	if o.DryRun {
		if o.FromStart {
			opts = append(opts, client.FromStart())
		}
		p, err := c.client.PlanRewind(ctx, id, o.To, opts...)
		if err != nil {
			return answer{}, err
		}
		return answer{body: api.RewindPlanOf(p)}, nil
	}
	got, err := request(ctx, id, o, opts)
	if errors.Is(err, client.ErrPending) && c.Context().Err() == nil {
		return accepted(id), nil
	}
	return answer{body: api.OperatedOf(got)}, err
}
