// Package payload encodes the payloads of authors as JSON and decides which types can be payloads.
//
// The encoding is that of encoding/json. In addition, a type or a value that would not be the same after decoding is rejected instead of
// being changed silently.
//
//	type     checked once, where the handle is declared   TypeOf
//	value    checked when it is encoded                   Type.Encode
//	bytes    checked before and after they are decoded    Type.Decode
//
// # Types
//
// TypeOf walks the type. It rejects types that encoding/json encodes but never decodes (a non-empty interface, MarshalJSON without
// UnmarshalJSON), whose parts it drops (a struct without exported fields, a field hidden by another with the same name, fields next to a
// promoted MarshalJSON), that it encodes in two ways (a MarshalJSON with a pointer receiver in a map), or that it cannot encode (chan,
// func, complex). The walk records which types contain something that must be checked in each value; other types have no cost at run
// time.
//
// # Values
//
// Encode rejects text that is not UTF-8, integers in an any that a float64 cannot represent, maps in an any whose keys are not strings, a
// pointer to a nil, and values that nest deeper than MaxDepth.
//
// # Bytes
//
// Decode rejects bytes that are not UTF-8 and JSON that nests deeper than MaxDepth before anything is decoded. JSON has no length
// prefixes that could lie: the memory allocated is bounded by the number of bytes times the size of the author's type. Times are decoded
// with their offset and without the name of a zone, so that they do not depend on the zone of the machine.
package payload
