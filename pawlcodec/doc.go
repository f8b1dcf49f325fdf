// Package pawlcodec compresses and encrypts payloads, so that nothing of them is readable in Redis, in NATS and in logs.
//
// # Where
//
// A payload is sealed when it leaves the code of its author, and opened when it reaches such code again, or a user who holds the key:
//
//	client ──Seal──▶ INPUTS ─▶ inbox ─▶ history ──Open──▶ orchestration
//	orchestration ──Seal──▶ history ─▶ TASKS ──Open──▶ activity ──Seal──▶ inbox
//	history, result, status, answer ──Open──▶ client (gateway, console, command line)
//
// The owner of an instance, the stores and the streams handle sealed bytes. Only the part of an orchestrator that runs the code (package
// internal/replay), workers and clients have the Codec.
//
// Sealed are inputs, results, events, updates and their answers, queries and theirs, custom statuses, side effects, and the message,
// stack and data of failures that code has returned. Readable are ids, names, versions, codes of failures, attributes, headers, keys of
// limits, the names of requesters and their reasons, times and sizes, and the failures that Pawl itself makes.
//
// # Bytes
//
// A sealed payload has the type history.TypeSealed and these bytes:
//
//	version 1 · flags (1: compressed, 2: encrypted, 4: stored) [· length of the key's id · id · 4 bytes that check the key · 24 bytes of salt] · body
//
// The body is the type of the payload with its length in front, and its data; compressed by zstd if that makes it shorter; encrypted by
// AES-256-GCM, with everything before the body as additional data, and with a key of its own: HMAC-SHA-256 of the salt with the key that
// has the id. So the number of payloads under one key is not bounded by the nonces of GCM.
//
// # Store
//
// With Options.Store a payload whose sealed body is longer than 64 KiB is a reference: the body is replaced by the name of an object, its
// length, its length when it is opened, and its SHA-256, and the object has the body. So the store has what Redis would have had, compressed and encrypted.
//
// The object is written before its reference is sent, committed or acknowledged, and is never changed. It is read when code, or a reader,
// receives the payload; one that cannot be read now is an *ObjectError, which is handled as a missing key. The name of an object of a turn
// follows from its place and body, as the salt does; others are random. An object names the instances that may refer to it, and it is removed
// after all of them are. So a reference is of no use elsewhere: CheckPortable. Decision record 81 has the protocol.
//
// # Salt
//
// The salt of clients and workers is random. A turn may be decided again (the commit was lost, or the store has forgotten it), and the
// effect ids of its decisions, which are computed from the sealed bytes, must be the same then. So the salt of a decision is derived: HMAC of
// its place (instance, execution, event), of the bytes before the salt, and of the body before it is encrypted. Equal payloads at two
// places have different bytes; only a decision that is made again in the same place has the same ones. The nonce is constant, so no two
// bodies may have one salt: the same payload has another salt when it is compressed, or by another version of the compressor. After such a
// change, or a rotation, a turn that is decided again has other effect ids, as if the code had changed its payload. A replay compares
// opened payloads and depends on neither.
//
// # Keys
//
// A KeyProvider has a current key and the earlier ones. To rotate: give all processes the new key beside the current one, then make it the
// current one, and remove the old key when no instance and no retained history has it. A payload whose key a process does not have is
// a *KeyError, which names the id of the key: the instance is stalled and continues when the key is there; a worker returns the task; a
// client returns the error. So is a payload whose key has the same id and other bytes. A payload that was changed is ErrDamaged, and
// code that receives it gets pawl.ErrUndecodable.
//
// # Limits
//
// The length of a payload is visible, and with compression so is how well it compresses: do not compress secrets together with text that an
// attacker chooses. Whether a payload is empty is visible. A payload is not bound to its place: who may write to the stores can copy one
// to another place. Payloads that are not sealed are read as they are, so keys keep payloads secret and do not prove who wrote them. A
// compressed payload that is longer than the largest one when it is opened is ErrDamaged.
package pawlcodec
