// Package queue is everything Pawl says over NATS: the two JetStream streams that
// carry work, and the core-NATS messages that make it fast. It knows no Redis.
//
// # Subjects
//
//	pawl.<ns>.to.<instance>.<kind>[.<name>]   inputs from clients; the INPUTS stream takes them
//	pawl.<ns>.own.<instance>.<kind>[.<name>]  inputs from orchestrators: what instances send to each other; INPUTS takes them, too
//	pawl.<ns>.in.<p>.<to|own>.<instance>.…    how the INPUTS stream files both: p is a hash of the instance
//	pawl.<ns>.task.<queue>                    what workers pull; the TASKS stream takes it
//	pawl.<ns>.bell.<p>                        doorbell: an inbox of partition p has become non-empty
//	pawl.<ns>.hint.<worker>                   these leases of yours are deleted: renew now
//	pawl.<ns>.ask.<p>.<read|admin>            request to the owner of partition p; see Access
//	pawl.<ns>.word.<p>                        gates tell instances of partition p that they were let in, or gates of p want to be looked at
//	pawl.<ns>.owner.<p>                       partition p has an owner that is new or was cut off: clients that wait for
//	                                          something in it request it again (no body)
//	pawl.<ns>.notice                          a partition was released, a member came or went, a policy was changed
//	pawl.<ns>.workers                         request to all workers, from operators and orchestrators: tell about yourselves
//	pawl.<ns>.watch                           there is a watcher: publish changes for WatchTTL (no body)
//	pawl.<ns>.change.<instance>               JSON, while there is a watcher: what a commit has changed
//	pawl.<ns>.ended.<instance>                JSON: how an instance has ended
//	pawl.<ns>.result.<instance>               request for that, answered in JSON by one of the orchestrators
//
// <instance> is the id with a comma for each dot, so that it is one token; no id has a comma.
//
// A client publishes to …to.> and …ask.*.read, and subscribes to its own reply inbox and to …owner.*. Without the
// permission for the last it still works: what an owner that died had to push to it arrives when the client requests it
// the next time, up to five seconds later.
//
// The subject is all that is known of a sender. So what only an orchestrator may say (a child's end, whose child an
// instance is, which start a cancel takes back) is believed from …own.> only, and permissions keep everyone else from publishing there.
//
// # Inputs
//
// What moves an instance is a message on one of these subjects; whoever may publish
// needs nothing else. A header that is not given is empty.
//
//	…to.<instance>.start.<orchestration>   the body is its input. Pawl-Orchestration-Version: which one.
//	                                       Pawl-Reply: where its end is told
//	…to.<instance>.event.<name>            the body is its payload
//	…to.<instance>.cancel                  the body says why: text, or {"text":…,"by":…}
//	…to.<instance>.purge                   the body as that of a cancel, and "force":true to purge one that runs
//	…own.<instance>.start, event, cancel   from an instance. Pawl-Parent: whose child; Pawl-Holds: the gates that its
//	                                       ancestors hold; Pawl-Of: which start a cancel takes back; Pawl-Reason
//	…own.<instance>.done                   a child's end, for its parent: see Done
//
// Content-Type (absent: JSON), Pawl-Id (a repeat of it takes no effect), Pawl-By and
// Pawl-Version (of these conventions) go with any of them. A start can bring an event,
// so that an instance gets it whether or not it is there already:
//
//	nats req pawl.default.to.t-1.start.tenant '{"paid":3}' -H Pawl-Event:paid
//
// Then the body is the event's payload and the input is empty; with Pawl-Split: n the
// first n bytes are the input. Pawl-Event-Type is the event's content type, if it is
// another one.
//
// The stream takes these subjects and no others, messages of at most 1,088 KiB, and so many bytes in all
// (Options.InputsMaxBytes). What it refuses has no acknowledgement, or one with an error. What else breaks these rules is accepted,
// for the stream knows none of them; the reader passes it with a Problem.
//
// # What each may lose
//
// INPUTS is the only stream whose loss loses anything: what it had accepted and no
// orchestrator had ingested. It is kept on disk, refuses new messages when it is
// full, and is trimmed only behind what is stored elsewhere. TASKS lives in memory:
// the history of every instance knows its outstanding activities, and the look of
// its orchestrator sends again what was lost. Core-NATS messages are hurries: each
// may be lost, repeated or forged, and costs at most seconds.
//
// # Reading
//
// Both streams are read by pull requests that this package keeps open itself, so
// that the number of messages asked for is always the number of places free:
//
//	wanted ──request──▶ open ──message──▶ in hand ──taken──▶ the caller's
//	   ▲                  │
//	   └── 408: remainder ┘
//
// A reader of INPUTS (Attach) ends at the first irregularity, and whoever reads
// attaches again from the position that is stored with the state. A puller of TASKS
// (Pull) repairs itself, because nothing depends on what it had asked for.
//
// What the stream had accepted for a partition at a moment of its own clock is asked of
// its leader (Accepted), because a reader's consumer may be on a server that is behind:
// an owner that has not ingested so far knows less than the stream.
//
// Messages of Pawl itself are msgpack arrays whose first element is a version. One
// of a later version is ErrNewer; anything else that does not decode is nonsense
// from a foreigner, counted and ignored.
//
// The API of this package may change.
package queue
