//go:build race

package model

// racing reports whether the race detector is on.
const racing = true
