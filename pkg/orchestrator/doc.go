// Package orchestrator runs orchestrations: it owns partitions and turns the inputs of their instances into history, leases and tasks.
//
// Any number of processes may run one for a namespace; each owns a share of the partitions. What an owner does is in package internal/core;
// how that is carried out in package internal/shard.
package orchestrator
