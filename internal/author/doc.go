// Package author has what the runtime reads from the types of the author's API: the untyped form of bindings, the encoding of
// handles, and the conversion of errors. Package pawl builds its types on it; the orchestrator, the worker, the client and pawltest
// read them with the functions here.
//
// A public type embeds a type of this package under an unexported name. Its methods are unexported, too: the public type satisfies
// the interfaces of the functions here and shows nothing of it to authors.
package author
