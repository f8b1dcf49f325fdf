// Package gateway is what a fleet serves over HTTP: its health, its metrics, and an API about a
// namespace. It speaks to the orchestrators as every client does, over NATS.
//
//	GET /healthz                                     200 while the process runs
//	GET /readyz                                      200, or 503 with what is missing, a line each
//	GET /metrics                                     what Prometheus reads
//	GET /api/v1/actions/{ref}/queue-stats[?key=…]    how the queue of an action stands: see QueueStats
//
// An error of the API is an object of application/problem+json (RFC 9457) with type, title, status
// and detail. There is no authentication: the address belongs on a network that
// only its readers reach, or behind a proxy that authenticates them. [Listen] and [NewServer] bound what a client can cost.
//
// The API of this package may change; that of HTTP is what its version says.
package gateway
