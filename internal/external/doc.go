// Package external turns programs and HTTP endpoints into activities, for workers that contain no code for them.
//
// # Protocol of a program
//
//	standard input   the input of the activity, JSON; empty if it has none
//	standard output  the result, JSON, at most 512 KiB; empty for none. With an exit code other than 0: an error object
//	standard error   log lines; the worker logs each with the activity and its instance
//	exit code        0: completed; otherwise failed. 65 (EX_DATAERR) is final, any other may be retried
//	environment      PATH, HOME, LANG, LC_ALL, TZ and TMPDIR of the worker, the configured variables, and PAWL_ACTIVITY,
//	                 PAWL_INSTANCE, PAWL_KEY (the idempotency key) and PAWL_ATTEMPT; TRACEPARENT, TRACESTATE and BAGGAGE of the instance
//	cancellation     SIGTERM to the process group, SIGKILL at the end of the grace period: see package exec
//
// # Protocol of an endpoint
//
//	request       POST with the input as its body; Content-Type: application/json; Idempotency-Key, Pawl-Activity,
//	              Pawl-Instance and Pawl-Attempt; traceparent, tracestate and baggage of the instance, and the headers declared
//	              by its start, with the prefix Pawl-Header-
//	2xx           completed; the body is the result, JSON, at most 512 KiB, or empty
//	408, 425, 429, 5xx, no response
//	              failed, and may be retried, after Retry-After if the response has one
//	other status  failed, and final; redirects are not followed
//	cancellation  closes the connection
//
// Unless the configuration allows others, the address of the connection must be public. The name is not checked, because it may
// resolve to another address at each lookup. No proxy is used.
//
// # Errors
//
// A failure is described by an error object, from a program as its standard output, from an endpoint as its body:
//
//	{"error": {"message": "card declined", "code": "card-declined", "retryable": false, "data": {"limit": 500}}}
//
// All members except message are optional. The code names a sentinel (pawl.NewError), which errors.Is finds in the error of the call;
// retryable overrides the exit code or the status; data is the data of pawl.WithData.
//
// # Retries
//
// The Retry of a call retries failures, as for any activity. In addition the worker retries an attempt in place, and keeps its slot:
//
//	attempt ─fails─▶ final? attempts used up? ──yes──▶ the failure of the activity
//	   ▲                     no
//	   └── Retry-After (at most Retry.Max), or the backoff ◀──┘      cancelled meanwhile: the cause
//
// Without a configured retry, only a response with Retry-After is retried, up to five attempts.
package external
