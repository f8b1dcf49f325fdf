// Package orchestrator runs orchestrations: it owns partitions and turns the inputs of their instances into history, leases and tasks.
//
// Any number of processes may run an orchestrator for a namespace; each owns a share of the partitions. Package internal/core decides what an
// owner does, and package internal/shard carries it out.
package orchestrator
