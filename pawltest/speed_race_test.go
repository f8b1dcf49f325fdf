//go:build race

package pawltest_test

// slower is how much the race detector may cost.
const slower = 20
