// Package gateway serves a fleet over HTTP: its health, its metrics, the API of a namespace, and the console. It talks to
// the orchestrators over NATS, as every client does; it has no access to Redis.
//
//	GET /healthz              200 while the process runs
//	GET /readyz               200, or 503 with one line for each thing that is missing
//	GET /metrics              metrics in the Prometheus format
//	/                         the console; see package console
//	/api/v1/…                 the API; docs/http-api.md describes it
//	GET /api/v1/openapi.json  the API as an OpenAPI 3.1 document, generated from the list of operations that the router uses
//
// The API reports an error as an application/problem+json object (RFC 9457) with type, title, status, detail and, if the
// caller can do something about it, a hint named do.
//
// Every operation requires a role (viewer, operator or admin). Users authenticate with a token; on a loopback address
// without tokens every client is an admin. State-changing requests from pages of another origin are refused, and every
// state-changing request is logged with the name of its user. On a loopback address, requests for other host names are
// refused, which prevents DNS rebinding.
package gateway
