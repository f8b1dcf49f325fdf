package gateway

import (
	"errors"
	"net/http"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/pkg/client"
)

// maxRows limits the rows on one page of a list.
const maxRows = 1000

// queueStats describes the limit of an action: an activity or an orchestration, by name.
//
// With ?key= it describes the limit of that value of the action's key. Without it, it describes the limit of the action
// itself. If the policy in force has a key, or all inputs have had one, it describes the sum over all keys in use and the
// inputs without a key: then "key" is empty, "keys" is their number, "max_concurrent" and "policy" apply to each key,
// "oldest_enqueued_at" is the oldest of all, and "limited_until" is the earliest.
func queueStats(c *call) (answer, error) {
	info, err := c.client.QueueStats(c.Context(), c.PathValue("ref"), c.query.Get("key"))
	return answer{body: api.QueueStatsOf(info)}, err
}

func listActions(c *call) (answer, error) {
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	var out api.Actions
	out.Actions, out.More, err = firstOf(c.client.Queues(c.Context(), ""), limit, api.QueueStatsOf)
	return answer{body: out}, err
}

func listWaiters(c *call) (answer, error) {
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	action, key := c.PathValue("ref"), c.query.Get("key")
	out := api.Waiters{Waiters: []api.Waiter{}}
	if holders, err := c.flag("holders"); err != nil {
		return answer{}, err
	} else if holders {
		rows, err := c.client.Holders(c.Context(), action, key, limit+1)
		if err != nil {
			return answer{}, err
		}
		out.More = len(rows) > limit
		for _, w := range rows[:min(limit, len(rows))] {
			out.Waiters = append(out.Waiters, api.WaiterOf(w))
		}
		return answer{body: out}, nil
	}
	out.Waiters, out.More, err = firstOf(c.client.Waiters(c.Context(), action, key), limit, api.WaiterOf)
	return answer{body: out}, err
}

func clearWaiters(c *call) (answer, error) {
	n, err := c.client.ClearQueue(c.Context(), c.PathValue("ref"), c.query.Get("key"))
	return answer{body: api.Cleared{Cleared: n}}, err
}

func pauseAction(c *call) (answer, error) {
	var r reason
	if err := c.decode(&r); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, c.client.PauseAction(c.Context(), c.PathValue("ref"), client.By(c.user.Name), client.Reason(r.Reason))
}

func resumeAction(c *call) (answer, error) {
	var r reason
	if err := c.decode(&r); err != nil {
		return answer{}, err
	}
	err := c.client.ResumeAction(c.Context(), c.PathValue("ref"), client.By(c.user.Name), client.Reason(r.Reason))
	if errors.Is(err, client.ErrNotFound) {
		return answer{}, &problem{Status: http.StatusNotFound, Detail: c.PathValue("ref") + " is not paused"}
	}
	return answer{status: http.StatusNoContent}, err
}

func listPolicies(c *call) (answer, error) {
	all, err := c.client.Policies(c.Context())
	out := api.Policies{Policies: []api.LevelPolicy{}}
	for _, p := range all {
		out.Policies = append(out.Policies, api.LevelPolicyOf(p))
	}
	return answer{body: out}, err
}

func setPolicy(c *call) (answer, error) {
	var p api.Policy
	if err := c.decode(&p); err != nil {
		return answer{}, err
	}
	err := c.client.SetPolicy(c.Context(), c.PathValue("level"), p.Client(), client.By(c.user.Name), client.Reason(c.query.Get("reason")))
	return answer{body: api.LevelPolicy{Level: c.PathValue("level"), Policy: p}}, err
}

func deletePolicy(c *call) (answer, error) {
	err := c.client.DeletePolicy(c.Context(), c.PathValue("level"), client.By(c.user.Name), client.Reason(c.query.Get("reason")))
	if errors.Is(err, client.ErrNotFound) {
		return answer{}, &problem{Status: http.StatusNotFound, Detail: "no policy was set for " + c.PathValue("level")}
	}
	return answer{status: http.StatusNoContent}, err
}

// queueDemand counts the slots that a task queue can use.
func queueDemand(c *call) (answer, error) {
	d, err := c.client.Demand(c.Context(), c.PathValue("queue"))
	return answer{body: api.DemandOf(c.PathValue("queue"), d)}, err
}

// listVersions counts instances by version.
func listVersions(c *call) (answer, error) {
	v, err := c.client.Versions(c.Context())
	return answer{body: api.VersionsOf(v)}, err
}

// listWorkers lists the workers that answer within half a second.
func listWorkers(c *call) (answer, error) {
	all, err := c.client.Workers(c.Context())
	out := api.Workers{Workers: []api.Worker{}}
	for _, w := range all {
		out.Workers = append(out.Workers, api.WorkerOf(w))
	}
	return answer{body: out}, err
}

// drainWorker makes a worker accept no more tasks.
func drainWorker(c *call) (answer, error) {
	return answer{status: http.StatusNoContent}, c.client.DrainWorker(c.Context(), c.PathValue("name"))
}

// getHealth describes the state of Redis and NATS.
func getHealth(c *call) (answer, error) {
	h, err := c.client.Health(c.Context())
	return answer{body: api.HealthOf(h)}, err
}

func listPartitions(c *call) (answer, error) {
	all, err := c.client.Partitions(c.Context())
	out := api.Partitions{Partitions: make([]api.Partition, len(all))}
	for i, p := range all {
		out.Partitions[i] = api.PartitionOf(p)
	}
	if err != nil {
		out.Incomplete = userText(err)
	}
	return answer{body: out}, nil
}
