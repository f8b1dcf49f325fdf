package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/client"
)

// batch is the body of a request to start a batch.
type batch struct {
	client.Batch

	ID     string `json:"id,omitempty"`      // instance id; default: derived from the Idempotency-Key
	DryRun bool   `json:"dry_run,omitempty"` // only count the instances
}

func batchOperations() []operation {
	const path = root + "/batches"
	return []operation{
		{
			method: http.MethodPost, path: path, id: "startBatch", role: access.Operator, serve: startBatch, keyed: true,
			summary: "Send a request to every instance that passes a filter; the verb purge requires the role admin; dry_run only counts the instances.",
			request: batch{}, replies: map[int]any{200: api.BatchCount{}, 202: api.Accepted{}},
		},
		get(path, "listBatches", listBatches, api.Batches{},
			"List batches, the latest change first.", limitParam),
		get(path+"/{id}", "getBatch", getBatch, api.Batch{},
			"Describe a batch and its progress."),
	}
}

func startBatch(c *call) (answer, error) {
	var b batch
	if err := c.decode(&b); err != nil {
		return answer{}, err
	}
	if err := b.Check(); err != nil {
		return answer{}, badRequest("%v", err)
	}
	if b.Verb == client.BatchPurge && c.user.Role < access.Admin {
		return answer{}, &access.Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s has the role %s; a batch of purges requires %s", c.user.Name, c.user.Role, access.Admin)}
	}
	if err := c.mayRepeatAll(b.Batch); err != nil {
		return answer{}, err
	}
	if b.DryRun {
		n, err := c.client.CountBatch(c.Context(), b.Batch)
		return answer{body: api.BatchCount{Count: n.Count, AtLeast: n.AtLeast}}, err
	}
	if _, err := c.key(); err != nil {
		return answer{}, err
	}
	if b.ID == "" {
		b.ID = "batch-" + c.idSuffix()
	}
	if err := pawl.ValidateID(b.ID); err != nil {
		return answer{}, badRequest("%v", err)
	}
	_, err := c.client.StartBatch(c.Context(), b.ID, b.Batch, client.By(c.user.Name))
	return answer{status: http.StatusAccepted, location: root + "/batches/" + url.PathEscape(b.ID), body: api.Accepted{Instance: b.ID, Accepted: true}}, err
}

// mayRepeatAll applies mayRepeat to all instances of a batch.
func (c *call) mayRepeatAll(b client.Batch) error {
	if c.user.Role >= access.Admin || b.Verb != client.BatchRetry && b.Verb != client.BatchRewind {
		return nil
	}
	where, err := filter.Parse(b.Where, time.Now())
	if err != nil {
		return badRequest("where: %v", err)
	}
	b.Where, b.All = where.Is(filter.Orchestration, message.BatchName).String(), false
	n, err := c.client.CountBatch(c.Context(), b)
	if err == nil && n.Count > 0 {
		return c.repeatsBatches()
	}
	return err
}

func getBatch(c *call) (answer, error) {
	id := c.PathValue("id")
	st, status, err := c.client.DescribeBatch(c.Context(), id)
	return answer{body: api.BatchOf(id, status, &st)}, err
}

func listBatches(c *call) (answer, error) {
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	var out api.Batches
	out.Batches, out.More, err = firstOf(c.client.Batches(c.Context(), limit+1), limit, func(row client.Summary) api.Batch { return api.Batch{ID: row.Instance} })
	if err != nil {
		return answer{}, err
	}
	out.Batches, err = describeRows(out.Batches, func(b *api.Batch) (bool, error) {
		st, status, err := c.client.DescribeBatch(c.Context(), b.ID)
		if errors.Is(err, client.ErrNoBatch) { // was purged after it was listed
			return false, nil
		}
		*b = api.BatchOf(b.ID, status, &st)
		return true, err
	})
	return answer{body: out}, err
}
