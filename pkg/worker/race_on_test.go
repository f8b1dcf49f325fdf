//go:build race

package worker_test

// slower is how much longer things take under the race detector, nats-server included,
// for it is in this process.
const slower = 8
