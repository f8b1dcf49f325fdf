// Package stack runs nats-server and the binaries of fleets in tests, as processes that can be killed, paused and restarted;
// package redistest does the same for Redis. Every server listens on loopback at a port that no other test uses, stores its
// data and its log in the directory of the test, is stopped at the end of the test, and prints its log if the test has
// failed.
package stack

import "strconv"

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
