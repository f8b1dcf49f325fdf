//go:build !failpoint

// Package failpoint marks the places where tests stop the world. In an ordinary
// build a mark costs nothing: Here is empty and inlined away. The tests of crashes
// build the binaries with -tags failpoint; see on.go.
package failpoint

// Here marks a crash point by name.
func Here(string) {}

// Illegal does nothing in an ordinary build, where the caller handles what must not be.
func Illegal(error) {}
