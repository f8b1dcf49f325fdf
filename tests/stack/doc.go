// Package stack starts nats-server and the binaries of fleets, for tests, as processes that can be killed, paused and started
// again; package redistest does so for Redis. Everything listens on loopback at a port that no other test has, keeps its data and its log in
// the test's directory, is stopped at the end of the test, and shows its log if the test has failed.
package stack

import "strconv"

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
