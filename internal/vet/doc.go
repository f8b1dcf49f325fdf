// Package vet finds orchestration code that would not replay, before it runs.
//
// Orchestration code is every function, declared or literal, that takes a *pawl.Context, the literals inside it, and the functions that
// these call. A finding is always reported in a function that takes a *pawl.Context: at the hazard itself, or at the call that reaches
// it, with the path. Activities may therefore use a helper that reads the clock; only a call of it in an orchestration is reported.
//
// # Steps
//
//  1. Read the //pawl:allow comments of the package.
//  2. Scan each function separately for hazards and for the functions that it mentions. A mention counts as a call, because a
//     function that is passed on is usually called.
//  3. Join the functions without a *pawl.Context over the calls in the package until nothing changes. The shortest path to each kind
//     of hazard becomes a fact, which the analysis of importing packages reads.
//  4. Report the findings of functions with a *pawl.Context.
//  5. Report the allows that suppressed nothing.
//
// An allow applies in steps 3 and 4: a hazard that is allowed in a helper does not become a fact.
//
// # Other packages
//
// Most kinds of hazard are reported through any number of packages. Some are confined to the package in which they occur: a mutex that
// guards the cache of a library does not concern its callers. See hazard.confined.
//
// The standard library is judged by a list (catalogue_std.go) rather than by its code, which uses locks and pools everywhere. The same
// applies to well-known generators of ids. Package pawl is free of hazards.
//
// # Limits
//
// Calls through interfaces and function values, and values behind pointers, are not followed. Package-level variables that are read are
// not assumed to be constant. Replay detects what the analyzer misses: it suspends the instance and names the event.
package vet
