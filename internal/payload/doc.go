// Package payload encodes the payloads of authors as JSON and decides which types can be payloads.
//
// The encoding is that of encoding/json. The package adds what encoding/json leaves open: a type or a
// value that would not come back as it was sent is refused instead of being changed silently.
//
//	type     checked once, where the handle is declared   TypeOf
//	value    checked when it is encoded                   Type.Encode
//	bytes    checked before and after they are decoded    Type.Decode
//
// # Types
//
// TypeOf walks the type and refuses what encoding/json encodes and never decodes (a non-empty interface,
// MarshalJSON without UnmarshalJSON), what it drops (a struct without exported fields, one field hidden by
// another of its name, fields beside a promoted MarshalJSON), what it encodes in two ways (a MarshalJSON
// with a pointer receiver in a map) and what it cannot encode (chan, func, complex). The walk notes which
// types hold something that must be looked at in values; all others cost nothing more at run time.
//
// # Values
//
// Encode refuses text that is not UTF-8, integers in an any that a float64 does not hold, maps in an any
// whose keys are not strings, a pointer to a nil, and what nests deeper than MaxDepth.
//
// # Bytes
//
// Decode refuses bytes that are not UTF-8 and what nests deeper than MaxDepth before anything is decoded.
// JSON has no lengths that could lie: what is allocated is bounded by the bytes that are there, times the
// size of the author's type. Times are decoded with their offset and without the name of a zone, so that
// they do not depend on the zone of the machine.
package payload
