// Package model searches the states of an owner for one that breaks a promise, breadth first and by random walks.
//
// The owner is the real one (package core), so are the turns (package turn) and the orchestrations; the store is that of package
// memstore. Around them is a small world: a stream, tasks, workers, and a network that delivers requests in any order, and may lose
// a reply, deliver a request twice, or return the store to an earlier state; owners die and others acquire.
//
//	plan of inputs ──▶ stream ──▶ ingest ─┐
//	         ▲                            ▼
//	         └── messages ◀── Owner ◀──▶ memstore.Store ◀── claims, acknowledgements ◀── workers ◀── tasks
//
// A state is safe if Check returns nothing, and live if the fair world that goes on from it comes to rest with nothing missing
// (Finished). Limits have a model of their own, package gates.
//
// Time is discrete: it passes to the next moment that something waits for.
package model
