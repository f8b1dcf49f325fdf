// Package external makes activities of programs and HTTP endpoints, for workers that are not compiled for them.
//
// # Protocol of a program
//
//	standard input   the input of the activity, JSON; nothing if it has none
//	standard output  the result, JSON, at most 512 KiB; nothing for none. After another exit code than 0: an error object
//	standard error   log lines; the worker logs each with the activity and its instance
//	exit code        0: completed; otherwise failed. 65 (EX_DATAERR) is final, any other may be retried
//	environment      PATH, HOME, LANG, LC_ALL, TZ and TMPDIR of the worker, what the configuration adds, and PAWL_ACTIVITY,
//	                 PAWL_INSTANCE, PAWL_KEY (the idempotency key) and PAWL_ATTEMPT; TRACEPARENT, TRACESTATE and BAGGAGE of the instance
//	cancellation     SIGTERM to the process group, SIGKILL at the end of the grace period: see package exec
//
// # Protocol of an endpoint
//
//	request       POST with the input as its body; Content-Type: application/json; Idempotency-Key, Pawl-Activity,
//	              Pawl-Instance and Pawl-Attempt; traceparent, tracestate and baggage of the instance, and the headers that
//	              its start has declared with the prefix Pawl-Header-
//	2xx           completed; the body is the result, JSON, at most 512 KiB, or empty
//	408, 425, 429, 5xx, no response
//	              failed, and may be retried, after Retry-After if the response has one
//	other status  failed, and final; redirects are not followed
//	cancellation  closes the connection
//
// The address that a connection is made to, and not the name, must be public unless the configuration allows others: a name may
// resolve to another address at each lookup. No proxy is used.
//
// # Errors
//
// A failure is described by an error object, from a program as its standard output, from an endpoint as its body:
//
//	{"error": {"message": "card declined", "code": "card-declined", "retryable": false, "data": {"limit": 500}}}
//
// Every member but message is optional. The code is that of a sentinel (pawl.NewError), which errors.Is finds in the error of the call;
// retryable overrides the exit code or the status; data is that of pawl.WithData.
//
// # Retries
//
// The Retry of a call repeats failures, as those of any activity. In addition the worker repeats an attempt in place, holding its slot:
//
//	attempt ─fails─▶ final? attempts used up? ──yes──▶ the failure of the activity
//	   ▲                     no
//	   └── Retry-After (at most Retry.Max), or the backoff ◀──┘      cancelled meanwhile: the cause
//
// Without a retry in the configuration, only a response with Retry-After is repeated, up to five attempts.
package external
