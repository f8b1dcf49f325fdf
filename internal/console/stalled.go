package console

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
)

const maxStalled = 200

// stalled returns at most n instances and inputs that cannot proceed.
func (q *request) stalled(n int) (out []api.Instance, _ error) {
	for d, err := range q.client.Stalled(q.Context()) {
		if err != nil {
			return out, err
		}
		if len(out) == n {
			break
		}
		out = append(out, api.SummaryOf(d))
	}
	return out, nil
}

// fullLimits returns the limits that are deadlocked or have waiters, worst first.
func (q *request) fullLimits() (out []api.QueueStats, _ error) {
	for g, err := range q.client.Queues(q.Context(), "") {
		if err != nil {
			return out, err
		}
		if g.Deadlocked || g.Waiting > 0 {
			out = append(out, api.QueueStatsOf(g))
		}
	}
	worstFirst(out)
	return out[:min(len(out), homeRows)], nil
}

func worstFirst(all []api.QueueStats) {
	rank := func(s api.QueueStats) int {
		if s.Deadlocked {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b api.QueueStats) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.QueueLength, a.QueueLength), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Key, b.Key))
	})
}

// stalledGroup is a group of stalled instances with the same cause.
type stalledGroup struct {
	cause

	Reason string // reason of the first instance
	Rows   []api.Instance
}

// cause is a kind of stall, and what resolves it.
type cause struct {
	Kind, Name, Fix string
	Links           []link
	Waits           bool // the instance is retried later, and can be retried now
	Notes           bool // the entries are notes about refused inputs, perhaps without an instance
}

// causes are the kinds of stalls. The reason of a stall begins with its kind.
var causes = []cause{
	{
		Kind: "unregistered", Name: "No orchestrator has the code", Waits: true, Links: []link{{Name: "Versions", URL: "/versions"}},
		Fix: "Deploy an orchestrator that registers this orchestration, with the version that the instance began with.",
	},
	{
		Kind: "non-determinism", Name: "The code does not match the history", Waits: true, Links: []link{{Name: "Versions", URL: "/versions"}},
		Fix: "Deploy the code that the instance began with, or keep both with a version; or rewind the instance to an event before the difference.",
	},
	{
		Kind: "blocked", Name: "The code blocks", Waits: true,
		Fix: "Orchestration code may wait only for futures: move anything that waits for a channel, a lock or the network into an activity.",
	},
	{
		Kind: "unreadable", Name: "Stored data cannot be read", Waits: true,
		Fix: "Deploy the newest build that has run here, in case it wrote the data. If pawl check reports damage, restore a backup or drop the instances.",
	},
	{
		Kind: "object-store", Name: "A large payload cannot be read or stored", Waits: true,
		Fix: "Restore the stream of the object store, or make room in it; or rewind or terminate the instance.",
	},
	{
		Kind: "not-started", Name: "Inputs arrived before a start", Links: []link{{Name: "Start…", URL: "/start", Changes: true}},
		Fix: "Start an instance with this id, and it receives them. Without a start they are removed after their retention.",
	},
	{
		Kind: "no-worker", Name: "No worker has the activity", Links: []link{{Name: "Workers", URL: "/workers"}},
		Fix: "Start a worker that registers the activity and reads its task queue.",
	},
	{
		Kind: "refused", Name: "Inputs that cannot be used", Notes: true,
		Fix: "Correct the sender, and send the input again: a refused input is not kept. The note is kept for a day.",
	},
}

func causeOfStall(reason string) cause {
	for _, c := range causes {
		if strings.HasPrefix(reason, c.Kind+":") {
			return c
		}
	}
	return cause{Kind: "other", Name: "Another cause", Waits: true, Fix: "The reason names what is missing."}
}

// listStalled groups what cannot proceed by its cause. Reasons that differ only in numbers, such as event ids, have the same
// cause.
func listStalled(q *request) (view, error) {
	all, err := q.stalled(maxStalled + 1)
	data := struct {
		Groups  []stalledGroup
		More    bool
		Problem string
	}{More: len(all) > maxStalled}
	if err != nil {
		data.Problem = err.Error()
	}
	groups := make(map[string]int)
	for _, d := range all[:min(len(all), maxStalled)] {
		reason := diagnose.OneLine(d.Stalled)
		key := numbers.ReplaceAllString(strings.ReplaceAll(reason, d.Instance, ""), "#")
		i, known := groups[key]
		if !known {
			i = len(data.Groups)
			groups[key] = i
			data.Groups = append(data.Groups, stalledGroup{cause: causeOfStall(reason), Reason: reason})
		}
		data.Groups[i].Rows = append(data.Groups[i].Rows, d)
	}
	slices.SortStableFunc(data.Groups, func(a, b stalledGroup) int { return cmp.Compare(len(b.Rows), len(a.Rows)) })
	return view{template: "stalled", title: "Stalled", section: "stalled", data: data, live: "/api/v1/watch?"}, nil
}

var numbers = regexp.MustCompile(`[0-9]+`)
