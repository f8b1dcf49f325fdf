//go:build !race

package worker_test

const slower = 1
