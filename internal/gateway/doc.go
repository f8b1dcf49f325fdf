// Package gateway serves a fleet over HTTP: its health, its metrics, an API of a namespace and the console. It talks to the
// orchestrators over NATS, like every client; it has no access to Redis.
//
//	GET /healthz              200 while the process runs
//	GET /readyz               200, or 503 with what is missing, a line each
//	GET /metrics              for Prometheus
//	/                         the console, see package console
//	/api/v1/…                 the API; docs/http-api.md describes it
//	GET /api/v1/openapi.json  the API as an OpenAPI 3.1 document, made of the list that the router is made of
//
// An error of the API is an object of application/problem+json (RFC 9457) with type, title, status and detail, and with
// what to do where there is something.
//
// Access: every operation requires a role (viewer, operator or admin). Users prove who they are with a token; on a
// loopback address without tokens every client is an admin. Requests that change something are refused if a page of another
// origin sent them, and each is logged with the name of its user. On a loopback address requests for other host names
// are refused (DNS rebinding).
package gateway
