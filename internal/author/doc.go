// Package author is the runtime's access to the types of the public API: the untyped form of bindings, the encoding of handles, and the
// conversion of errors. Package pawl builds its types on it; the orchestrator, the worker, the client and pawltest read them with the
// functions of this package.
//
// A public type embeds a type of this package under an unexported name. The methods of the embedded type are unexported, too: the public
// type satisfies the interfaces of the functions here, but shows authors nothing of it.
package author
