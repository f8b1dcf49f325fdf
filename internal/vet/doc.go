// Package vet finds, before it is run, orchestration code that would not replay.
//
// Orchestration code is every function, declared or literal, that takes a
// *pawl.Context, the literals inside it, and what these call. A finding is always
// reported in a function that takes a *pawl.Context: where the thing itself stands,
// or at the call through which it is reached, with the way there. So a helper that
// reads the clock may be used by activities, and is found only where an orchestration
// calls it.
//
// # Order of a run
//
//  1. The //pawl:allow comments of the package are read.
//  2. Each function is scanned on its own: hazards that stand in it, and the functions
//     that it mentions. A mention counts as a call, for a function that is handed on
//     is handed on to be called.
//  3. Functions without a *pawl.Context are joined over the package's calls until
//     nothing changes; the shortest way to each kind of hazard becomes a fact, which
//     the analysis of importing packages reads.
//  4. Functions with one are reported on.
//  5. Allows that silenced nothing are reported.
//
// An allow acts in the second and third step as well as in the fourth: a hazard that
// is argued in a helper never becomes a fact.
//
// # What travels
//
// Most kinds of hazard are reported through any number of packages. Some are confined
// to the package in which they stand: a library that guards its cache with a mutex
// is of no interest to those who call it. See hazard.confined.
//
// The standard library is judged by a list (catalogue_std.go) and never by its bodies,
// which lock and pool everywhere; so are well-known sources of ids. Package pawl is the
// language itself, and free.
//
// # Limits
//
// Calls through interfaces and function values are not followed to what they may
// reach, pointers are not followed to what they point at, and package-level variables
// that are read are not held to be constant. What slips through is met at run time by
// the replay, which stalls the instance and names the event.
package vet
