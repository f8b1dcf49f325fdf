package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
)

// Errors of operations; match them with errors.Is. The error of an instance that has ended is a *pawl.Failure or *pawl.Cancelled.
var (
	// ErrNotFound is returned if there is no such instance, limit or policy.
	ErrNotFound = errors.New("client: not found")
	// ErrIDTaken is returned if another instance has the id of a start whose IDReuse policy rejects that.
	ErrIDTaken = errors.New("client: another instance has the id")
	// ErrRefused is returned for an input or a policy that cannot take effect.
	ErrRefused = errors.New("client: refused")
	// ErrRunning is matched by *RunningError, which also matches ErrRefused.
	ErrRunning = errors.New("client: instance is running")
	// ErrPurgePending is returned if the wait for a purge ended before the purge took effect. It takes effect later.
	ErrPurgePending = errors.New("client: purge pending")
	// ErrPending is returned if the wait for an operator request ended before the request took effect. It takes effect later.
	ErrPending = errors.New("client: request pending")
	// ErrStalled is matched by *StalledError, which also matches ErrPurgePending.
	ErrStalled = errors.New("client: instance is stalled")
	// ErrNoStatus is returned for an instance that has not set a custom status.
	ErrNoStatus = errors.New("client: no custom status")
	// ErrEnded is matched by *EndedError.
	ErrEnded = errors.New("client: instance has ended")
	// ErrUnknown is matched by every error of Start, Send, SendOrStart, Cancel and Purge after which the message may have been accepted.
	// After any other error it was not accepted, and never will be.
	ErrUnknown = transport.ErrUnknown
	// ErrNoOwner is returned if no orchestrator owns the partition of the instance.
	ErrNoOwner = transport.ErrNoOwner
	// ErrClosed is returned by every operation of a closed Client.
	ErrClosed = transport.ErrClosed
)

// EndedError reports that an instance has ended and what the caller waits for can no longer occur. Attach and Result return its result.
type EndedError struct {
	Instance string
	Status   Status // Completed, Failed or Cancelled
}

// Error names the instance.
func (e *EndedError) Error() string {
	return fmt.Sprintf("client: instance %s has ended (%s)", e.Instance, e.Status)
}

// Is matches ErrEnded.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// RunningError reports that an instance was not purged because it has not ended.
type RunningError struct {
	Instance string
}

// Error names the instance.
func (e *RunningError) Error() string {
	return fmt.Sprintf("client: instance %s is running and was not purged; cancel it first, or purge it by force", e.Instance)
}

// Is matches ErrRunning and ErrRefused.
func (e *RunningError) Is(target error) bool { return target == ErrRunning || target == ErrRefused }

// StalledError reports that a purge is waiting in the inbox of a stalled instance.
type StalledError struct {
	Instance string
	Reason   string // reason why the instance is stalled
}

// Error names the instance and the cause.
func (e *StalledError) Error() string {
	return fmt.Sprintf("client: instance %s is stalled and not purged yet: %s; its purge waits until it can proceed, and a forced one removes it also if it cannot be read",
		e.Instance, e.Reason)
}

// Is matches ErrStalled and ErrPurgePending.
func (e *StalledError) Is(target error) bool {
	return target == ErrStalled || target == ErrPurgePending
}

// problemError is an error with a message of an owner.
type problemError struct {
	is   error // ErrNotFound or ErrRefused; nil: neither
	text string
}

// Error returns the message.
func (e *problemError) Error() string { return "client: " + e.text }

// Is matches the sentinel.
func (e *problemError) Is(target error) bool { return e.is != nil && target == e.is }

// problem returns the error for a problem that an owner reports.
func problem(p *request.Problem) error {
	switch p.Code {
	case request.ProblemNotFound:
		return &problemError{is: ErrNotFound, text: p.Message}
	case request.ProblemNotOwner:
		return fmt.Errorf("%w: %s", ErrNoOwner, p.Message)
	case request.ProblemRefused:
		return &problemError{is: ErrRefused, text: "refused: " + p.Message}
	default:
		return &problemError{text: fmt.Sprintf("%s (%s)", p.Message, p.Code)}
	}
}

// about adds the instance to an owner's message that does not name it.
func about(id string, err error) error {
	if p, ok := err.(*problemError); ok && !strings.Contains(p.text, id) { //nolint:errorlint // made by problem
		return &problemError{is: p.is, text: "instance " + id + ": " + p.text}
	}
	return err
}
