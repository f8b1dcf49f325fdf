// Package queue is everything Pawl says over NATS: the two JetStream streams that
// carry work, and the core-NATS messages that make it fast. It knows no Redis.
//
// # Subjects
//
//	pawl.<ns>.to.<instance>.<kind>[.<name>]   what anybody publishes; the INPUTS stream takes it
//	pawl.<ns>.in.<p>.<instance>.<kind>[.…]    how the INPUTS stream files it: p is a hash of the instance
//	pawl.<ns>.task.<queue>                    what workers pull; the TASKS stream takes it
//	pawl.<ns>.bell.<p>                        doorbell: an inbox of partition p has become non-empty
//	pawl.<ns>.hint.<worker>                   these leases of yours are deleted: renew now
//	pawl.<ns>.ask.<p>                         request to the owner of partition p
//	pawl.<ns>.notice                          a partition was released, a member came or went
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
// Messages of Pawl itself are msgpack arrays whose first element is a version. One
// of a later version is ErrNewer; anything else that does not decode is nonsense
// from a foreigner, counted and ignored.
//
// The API of this package may change.
package queue
