// Package transport contains Pawl's use of NATS: the two JetStream streams that transport inputs and tasks, and the core-NATS messages that
// shorten latency. It does not use Redis.
//
// # Subjects
//
//	pawl.<ns>.to.<instance>.<kind>[.<name>]   inputs from clients, stored in INPUTS
//	pawl.<ns>.own.<instance>.<kind>[.<name>]  inputs from orchestrators: messages between instances, stored in INPUTS
//	pawl.<ns>.in.<p>.<to|own>.<instance>.…    both as INPUTS stores them: p is a hash of the instance
//	pawl.<ns>.task.<queue>                    tasks for workers, stored in TASKS
//	pawl.<ns>.doorbell.<p>                    an inbox of partition p has become non-empty
//	pawl.<ns>.hint.<worker>                   leases of the worker were deleted: renew now
//	pawl.<ns>.request.<p>.<read|admin>        request to the owner of partition p; see Access
//	pawl.<ns>.limit.<p>                       notices of limits to the owner of partition p; see LimitNotice
//	pawl.<ns>.owner.<p>                       partition p has a new owner, or its owner was disconnected: clients repeat
//	                                          their requests (no body)
//	pawl.<ns>.notice                          a partition was released, a member joined or left, a policy was changed
//	pawl.<ns>.workers                         request to all workers, from operators and orchestrators
//	pawl.<ns>.watch                           there is a watcher: publish changes for WatchTTL (no body)
//	pawl.<ns>.change.<instance>               JSON, while there is a watcher: changes by a commit
//	pawl.<ns>.ended.<instance>                JSON: how an instance ended
//	pawl.<ns>.result.<instance>               request for the outcome, answered in JSON by one of the orchestrators
//
// <instance> is the id with each dot replaced by a comma, so that it is a single token; no id contains a comma.
//
// A client publishes to …to.> and …request.*.read, and subscribes to its own reply inbox and to …owner.*. The last permission is
// optional: without it, a result that a failed owner should have pushed arrives with the client's next request, up to five seconds
// later.
//
// The subject is the only verified information about a sender. So assertions that only orchestrators may make (the end of a child, the
// parent of an instance, the start that a cancel revokes) are accepted on …own.> only, and permissions prevent everyone else from
// publishing there.
//
// # Inputs
//
// Any NATS client with permission for one of these subjects can publish an input. All headers are optional.
//
//	…to.<instance>.start.<orchestration>   body: the input. Pawl-Orchestration-Version; Pawl-Reply: the subject that
//	                                       receives the outcome
//	…to.<instance>.event.<name>            body: the payload
//	…to.<instance>.cancel                  body: the reason, as text or {"text":…,"by":…}
//	…to.<instance>.purge                   body: as for a cancel, and "force":true to purge a running instance
//	…own.<instance>.start, event, cancel   from an instance. Pawl-Parent: its parent; Pawl-Holds: the limits that its
//	                                       ancestors hold; Pawl-Of: the start that a cancel revokes; Pawl-Reason
//	…own.<instance>.done                   the end of a child, for its parent; see Done
//
// Content-Type (default: JSON), Pawl-Id (a repeated id has no effect), Pawl-By and Pawl-Version (of these conventions) are valid for all
// of them. Pawl-Attributes contains the attributes of a start: see attribute.Set.
// A start can carry an event, so that the instance receives the event whether or not it already exists:
//
//	nats req pawl.default.to.t-1.start.tenant '{"paid":3}' -H Pawl-Event:paid
//
// The body is then the payload of the event, and the input is empty; with Pawl-Split: n the first n bytes are the input.
// Pawl-Event-Type is the content type of the event, if it differs.
//
// The stream accepts only these subjects, messages of at most 1,088 KiB, and a total size (Options.InputsMaxBytes). A rejected message
// receives no acknowledgement, or one with an error. The stream does not check the other rules: a message that violates them is stored,
// and the reader returns it with a Problem.
//
// # Durability
//
// INPUTS is the only stream whose loss loses data: inputs that were accepted and not yet ingested. It is stored on disk, rejects messages
// when it is full, and is trimmed only up to positions that are stored in Redis. TASKS is in memory: the history of an instance lists its
// outstanding activities, and reconciliation publishes lost tasks again. Core-NATS messages only shorten latency: each may be lost,
// repeated or forged, which costs seconds.
//
// # Reading
//
// Both streams are read with pull requests that this package keeps open, so that the number of requested messages always equals the
// number of free slots:
//
//	wanted ──request──▶ open ──message──▶ buffered ──received──▶ the caller
//	   ▲                  │
//	   └── 408: remainder ┘
//
// Requests end together, those of readers at multiples of 30 s and those of pullers at full seconds, so that their heartbeats coincide.
//
// A reader of INPUTS (Attach) ends at the first irregularity, and its caller attaches again at the position stored with the state. A
// puller of TASKS (Pull) repairs itself, because nothing depends on what it had requested.
//
// Accepted determines which inputs of a partition the leader of the stream had stored at a given time of its clock, because the consumer
// of a reader may be on a server that lags: an owner that has not ingested these inputs lags behind the stream.
//
// Messages between Pawl's processes are msgpack arrays whose first element is a version. A later version is ErrNewer; any other message
// that cannot be decoded is counted and ignored.
package transport
