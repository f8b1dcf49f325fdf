package gateway

import (
	"net/http"
	"slices"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
)

var (
	whereParam = parameter{
		name:        "where",
		description: `A filter such as status = failed and orchestration = "fulfil" and started > -24h; docs/http-api.md describes it. Streams do not support terms that compare times.`,
	}
	limitParam  = parameter{name: "limit", description: "Rows of the page, 1 to 1000. Default 100.", kind: "integer"}
	waitParam   = parameter{name: "wait", description: "Maximum time to wait, such as 30s, at most 1m. Default: answer at once."}
	lastParam   = parameter{name: "last", description: "Resume after the event with this id, as with the header Last-Event-ID."}
	keyParam    = parameter{name: "key", description: "Value of the action's key, if its limits have one."}
	reasonParam = parameter{name: "reason", description: "Reason, logged by the orchestrator."}
)

// operations returns all operations of the API.
func operations() []operation {
	return slices.Concat(instanceOperations(), messageOperations(), updateOperations(), operateOperations(), scheduleOperations(), batchOperations(), limitOperations())
}

const root = "/api/v1"

func instanceOperations() []operation {
	const instance = root + "/instances/{id}"
	return []operation{
		get(root+"/instances", "listInstances", listInstances, api.Instances{},
			"List instances by their latest change of status.",
			whereParam,
			parameter{name: "stalled", description: "Instead of where: everything that cannot proceed, with the reason, including what waits for a start or a worker, and refused inputs.", kind: "boolean"},
			parameter{name: "order", description: "newest (default) or oldest: by the latest change of status."},
			parameter{name: "cursor", description: "The value next of the previous page, in the same order."},
			limitParam),
		{
			method: http.MethodGet, path: root + "/watch", id: "watchInstances", role: access.Viewer, stream: watchInstances,
			summary: "Stream the changes of instances as server-sent events.", query: []parameter{whereParam, lastParam},
		},
		{
			method: http.MethodGet, path: instance + "/watch", id: "watchInstance", role: access.Viewer, stream: watchInstance,
			summary: "Stream the changes of an instance as server-sent events.", query: []parameter{lastParam},
		},
		get(root+"/counts", "countInstances", countInstances, api.Counts{},
			"Count the instances that pass a filter, also by status or another field.",
			whereParam, parameter{name: "by", description: "status, orchestration, version, parent, code, or the name of an attribute; absent: only the number."}),
	}
}

func messageOperations() []operation {
	const instance = root + "/instances/{id}"
	return []operation{
		{
			method: http.MethodPost, path: root + "/instances", id: "startInstance", role: access.Operator, serve: startInstance, keyed: true,
			summary: "Start an instance, send an event or an update with the start, wait for the end or the answer.", request: api.Start{},
			replies: map[int]any{200: api.Outcome{}, 202: api.Accepted{}},
		},
		get(instance, "getInstance", getInstance, api.Instance{},
			"Describe an instance and its outstanding work."),
		{
			method: http.MethodDelete, path: instance, id: "purgeInstance", role: access.Admin, serve: purgeInstance,
			summary: "Remove an instance with its history.", replies: map[int]any{200: purged{}, 202: api.Accepted{}},
			query: []parameter{
				{name: "force", description: "Also purge a running instance: its activities and children are cancelled.", kind: "boolean"},
				{name: "reason", description: "Reason, reported to the activities and children that are cancelled."},
			},
		},
		get(instance+"/history", "getHistory", getHistory, historyPage{},
			"Read the events of an execution.",
			parameter{name: "execution", description: "Default: the latest. The latest two are kept.", kind: "integer"},
			parameter{name: "after", description: "Only events after this event id.", kind: "integer"},
			limitParam),
		get(instance+"/export", "exportInstance", exportInstance, api.Export{},
			"Read an instance with its histories, to be replayed."),
		get(instance+"/tree", "getTree", getTree, node{},
			"Describe an instance and its outstanding descendants."),
		{
			method: http.MethodGet, path: instance + "/result", id: "getResult", role: access.Viewer, serve: getResult,
			summary: "Wait for the end of an instance; 202 while it runs.", query: []parameter{waitParam},
			replies: map[int]any{200: api.Outcome{}, 202: unfinished{}},
		},
		{
			method: http.MethodGet, path: instance + "/status", id: "getStatus", role: access.Viewer, serve: getStatus,
			summary: "Read the custom status, or wait for a newer version; 204 if there is none newer.",
			query:   []parameter{{name: "name", description: "Name of a named status."}, {name: "after", description: "The version that the caller already has.", kind: "integer"}, waitParam},
			replies: map[int]any{200: api.CustomStatus{}, 204: nil},
		},
		{
			method: http.MethodPost, path: instance + "/cancel", id: "cancelInstance", role: access.Operator, serve: cancelInstance, keyed: true,
			summary: "Request the cancellation of an instance.", request: reason{}, optional: true, replies: map[int]any{202: api.Accepted{}},
		},
		{
			method: http.MethodPost, path: instance + "/events/{name}", id: "sendEvent", role: access.Operator, serve: sendEvent, keyed: true,
			summary: "Send an event; the body is its data.", request: any(anyJSON{}), optional: true, replies: map[int]any{202: api.Accepted{}},
		},
		{
			method: http.MethodPost, path: root + "/events", id: "postCloudEvent", role: access.Operator, serve: postEvent,
			summary: "Receive a CloudEvent: the first rule that matches starts an instance, or sends an event or an update.", request: any(anyJSON{}),
			replies: map[int]any{200: triggered{}, 202: triggered{}},
		},
	}
}

func limitOperations() []operation {
	const action = root + "/actions/{ref}"
	return []operation{
		get(root+"/actions", "listActions", listActions, api.Actions{},
			"List the limits in use.", limitParam),
		get(action+"/queue-stats", "getQueueStats", queueStats, api.QueueStats{},
			"Describe the limit of an action.", keyParam),
		get(action+"/waiters", "listWaiters", listWaiters, api.Waiters{},
			"List the waiters at a limit in order, or its holders.",
			keyParam,
			parameter{name: "holders", description: "List the holders instead of the waiters.", kind: "boolean"},
			limitParam),
		{
			method: http.MethodPost, path: action + "/clear", id: "clearWaiters", role: access.Admin, serve: clearWaiters,
			summary: "Reject all waiters at a limit.", query: []parameter{keyParam}, replies: map[int]any{200: api.Cleared{}},
		},
		{
			method: http.MethodPost, path: action + "/pause", id: "pauseAction", role: access.Operator, serve: pauseAction,
			summary: "Pause an action: no call of an activity, or start of an orchestration, is admitted; its waiters keep their places.",
			request: reason{}, optional: true, replies: map[int]any{204: nil},
		},
		{
			method: http.MethodPost, path: action + "/resume", id: "resumeAction", role: access.Operator, serve: resumeAction,
			summary: "End the pause of an action.", request: reason{}, optional: true, replies: map[int]any{204: nil},
		},
		get(root+"/policies", "listPolicies", listPolicies, api.Policies{},
			"List the policies that were set at run time."),
		{
			method: http.MethodPut, path: root + "/policies/{level}", id: "setPolicy", role: access.Admin, serve: setPolicy,
			summary: "Set the policy of action:NAME, group:NAME or global.", query: []parameter{reasonParam}, request: api.Policy{}, replies: map[int]any{200: api.LevelPolicy{}},
		},
		{
			method: http.MethodDelete, path: root + "/policies/{level}", id: "deletePolicy", role: access.Admin, serve: deletePolicy,
			summary: "Remove a policy that was set; the policy that the code declares applies again.", query: []parameter{reasonParam}, replies: map[int]any{204: nil},
		},
		get(root+"/queues/{queue}/demand", "getDemand", queueDemand, api.Demand{},
			"Count the slots that a task queue can use now, for an autoscaler of its workers."),
		get(root+"/partitions", "listPartitions", listPartitions, api.Partitions{},
			"List the partitions with the orchestrators that own them."),
		get(root+"/registered", "listRegistered", registered, api.Registered{},
			"List the orchestrations and activities that the fleet has code for."),
		get(root+"/versions", "listVersions", listVersions, api.Versions{},
			"Count the instances that have not ended by version, with the orchestrators that have its code."),
		get(root+"/workers", "listWorkers", listWorkers, api.Workers{},
			"List the workers that answer within half a second."),
		{
			method: http.MethodPost, path: root + "/workers/{name}/drain", id: "drainWorker", role: access.Admin, serve: drainWorker,
			summary: "Drain a worker: it accepts no more tasks until its process is restarted.", replies: map[int]any{204: nil},
		},
		get(root+"/health", "getHealth", getHealth, api.Health{},
			"Describe the state of Redis and NATS, as an orchestrator sees it."),
	}
}
