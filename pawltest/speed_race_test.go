//go:build race

package pawltest_test

// slower is the factor by which the race detector may slow a test down.
const slower = 20
