// Package pawlcodec compresses and encrypts payloads, so that their contents are not readable in Redis, in NATS and in logs.
//
// # Where payloads are sealed
//
// A payload is sealed when it leaves the code of its author, and opened when it reaches such code again, or a user who holds the key:
//
//	client ──Seal──▶ INPUTS ─▶ inbox ─▶ history ──Open──▶ orchestration
//	orchestration ──Seal──▶ history ─▶ TASKS ──Open──▶ activity ──Seal──▶ inbox
//	history, result, status, answer ──Open──▶ client (gateway, console, command line)
//
// The owner of an instance, the stores and the streams handle sealed bytes only. Only the part of an orchestrator that runs the code,
// workers and clients have the Codec.
//
// Sealed: inputs, results, events, updates and queries with their answers, custom statuses, side effects, and the message, stack and data
// of failures returned by code. Readable: ids, names, versions, codes of failures, attributes, headers, keys of limits, the names and
// reasons of requesters, times and sizes, and failures made by Pawl itself.
//
// # Format
//
// A sealed payload has the type history.TypeSealed and these bytes:
//
//	version 1 · flags (1: compressed, 2: encrypted, 4: stored) [· length of the key's id · id · 4 bytes that check the key · 24 bytes of salt] · body
//
// The body consists of the length of the payload's type, the type, and the data. It is compressed with zstd if that makes it shorter. It
// is encrypted with AES-256-GCM, with everything before the body as additional data. Each payload has its own key: the HMAC-SHA-256 of
// the salt under the key with the given id. The number of payloads per key is therefore not bounded by the nonces of GCM.
//
// # Store
//
// With Options.Store, a payload whose sealed body is longer than 64 KiB becomes a reference: the body is replaced by the name of an
// object, its length, its length when opened, and its SHA-256, and the object contains the body. The store therefore holds the same
// compressed and encrypted bytes that Redis would have held.
//
// The object is written before its reference is sent, committed or acknowledged, and never changes. It is read when code or another
// reader receives the payload. If it cannot be read at present, it is handled like a missing key. The
// name of an object written by a turn is derived from its place and body, like the salt; other names are random. An object lists the
// instances that may refer to it, and is removed after all of them are. A reference is therefore useless anywhere else,
// such as in an export. Decision record 81 describes the protocol.
//
// # Salt
//
// The salts of clients and workers are random. A turn, however, may be decided again, because its commit was lost or the store has rolled
// back, and the effect ids of its decisions, which are computed from the sealed bytes, must then be the same. The salt of a decision is
// therefore derived: an HMAC of its place (instance, execution, event), of the bytes before the salt, and of the body before encryption.
// Equal payloads at two places have different bytes; only a decision that is made again at the same place has the same ones. Because the
// nonce is constant, no two bodies may share a salt: the same payload has a different salt if it is compressed, or compressed by another
// version of zstd. After such a change, or a key rotation, a turn that is decided again has other effect ids, as if the code had changed
// its payload. A replay compares opened payloads and is not affected.
//
// # Keys
//
// A KeyProvider provides the current key and earlier ones. To rotate keys, first give all processes the new key in addition to the
// current one, then make it the current one, and remove the old key when no instance and no retained history uses it. A payload whose key
// is not available to a process, or whose key has the same id but other bytes, is an error that matches ErrNoKey or that of the provider,
// and whose text has the id of the key. The instance is
// stalled and continues when the key is available; a worker returns the task; a client returns the error. A payload that was changed is
// ErrDamaged, and code that receives it gets pawl.ErrUndecodable.
//
// # Limits
//
// The length of a payload is visible, and with compression also how well it compresses, so do not compress secrets together with text
// that an attacker chooses. Whether a payload is empty is visible. A payload is not bound to its place: a writer with access to the
// stores can copy it to another place. Payloads that are not sealed are read as they are, so keys keep payloads secret but do not
// authenticate their writer. A compressed payload that is larger than the maximum when it is opened is ErrDamaged.
package pawlcodec
