package history_test

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// The policy of a start, as its header and HTTP name it.
func ExampleParseReuse() {
	reuse, ok := history.ParseReuse("after-failure")
	fmt.Println(reuse == history.ReuseAfterFailure, ok)
	_, ok = history.ParseReuse("replace")
	fmt.Println(ok)
	// Output:
	// true true
	// false
}

func ExampleParseVerb() {
	verb, ok := history.ParseVerb("rewind")
	fmt.Println(verb == history.VerbRewind, ok)
	// Output: true true
}

// An activity passes on the trace context and the headers that the sender of the start declared.
func ExampleHeaders() {
	headers := history.Headers("").With("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").With("Tenant", "acme")
	for name, value := range headers.All() {
		if history.IsDeclared(name) {
			fmt.Println(name, value)
		}
	}
	trace, ok := history.ParseTraceparent(headers.Get(history.HeaderTraceparent))
	fmt.Println(trace.Sampled(), ok)
	// Output:
	// tenant acme
	// true true
}
