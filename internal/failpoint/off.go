//go:build !failpoint

// Package failpoint marks the points at which tests kill or stop a process. In an ordinary
// build a mark costs nothing: Here is empty and inlined away. The crash tests
// build the binaries with -tags failpoint; see on.go.
package failpoint

// Here marks a crash point by name.
func Here(string) {}

// Illegal does nothing in an ordinary build, in which the caller handles the illegal transition.
func Illegal(error) {}
