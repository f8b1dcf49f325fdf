//go:build race

package worker_test

// slower is the factor by which tests are slower under the race detector; nats-server runs in this process.
const slower = 8
