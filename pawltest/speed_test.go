//go:build !race

package pawltest_test

const slower = 1
