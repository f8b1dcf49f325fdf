package settings

import "fmt"

// Exit codes of all programs.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2 // wrong flags or arguments; nothing was tried
)

// UsageError marks an error in the flags or arguments: its exit code is ExitUsage.
type UsageError struct{ error }

// Usage marks an error in the flags or arguments.
func Usage(err error) UsageError { return UsageError{err} }

// Unwrap returns the error.
func (e UsageError) Unwrap() error { return e.error }

// ExitCode is the error of a command that has reported its errors itself.
type ExitCode int

// Error is not shown to users.
func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Exit returns the code as an error; nil for ExitDone.
func Exit(code int) error {
	if code == ExitDone {
		return nil
	}
	return ExitCode(code)
}
