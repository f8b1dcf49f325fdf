package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/pkg/queue"
)

// Errors of requests. Those of a result are *pawl.Failure and *pawl.Cancelled.
var (
	// ErrNotFound says that there is no instance of that id (any more), or no such gate or policy.
	ErrNotFound = errors.New("client: no such instance")
	// ErrRefused says that an input can not take effect, and why.
	ErrRefused = errors.New("client: refused")
	// ErrRunning matches a *RunningError, which is ErrRefused too.
	ErrRunning = errors.New("client: the instance is running")
	// ErrNotYet says that a purge was not waited for any longer, and takes effect all the same.
	ErrNotYet = errors.New("client: not purged yet, but later")
	// ErrStuck matches a *StuckError, which is ErrNotYet too.
	ErrStuck = errors.New("client: the instance is stuck")
	// ErrNoStatus says that the instance has not set a custom status yet.
	ErrNoStatus = errors.New("client: no custom status")
	// ErrEnded matches an *EndedError.
	ErrEnded = errors.New("client: the instance has ended")
	// ErrUnknown is matched by every error of a Start, Send, SendOrStart, Cancel or Purge whose message may have been
	// accepted. Any other error of theirs means that it was not accepted, and never will be.
	ErrUnknown = queue.ErrUnknown
	// ErrNoOwner says that no orchestrator owns the instance's partition at the moment.
	ErrNoOwner = queue.ErrNoOwner
	// ErrClosed is the error of everything that is done with a closed Client.
	ErrClosed = queue.ErrClosed
)

// EndedError says that nothing more is to be expected of an instance, because it has
// ended. Attach and Result tell how.
type EndedError struct {
	Instance string
	Status   Status // Completed, Failed or Cancelled
}

// Error says which instance.
func (e *EndedError) Error() string {
	return fmt.Sprintf("client: instance %s has ended (%s)", e.Instance, e.Status)
}

// Is makes it match ErrEnded.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// RunningError says that an instance was not purged, because it runs.
type RunningError struct {
	Instance string
}

// Error says which instance, and what to do.
func (e *RunningError) Error() string {
	return fmt.Sprintf("client: instance %s is running and was not purged; cancel it first, or purge it by force", e.Instance)
}

// Is makes it match ErrRunning and ErrRefused.
func (e *RunningError) Is(target error) bool { return target == ErrRunning || target == ErrRefused }

// StuckError says that a purge waits in the inbox of an instance that can not go on.
type StuckError struct {
	Instance string
	Why      string
}

// Error says which instance, why, and what to do.
func (e *StuckError) Error() string {
	return fmt.Sprintf("client: instance %s is stuck and not purged yet: %s; its purge waits until it goes on, and one by force removes it also if it cannot be read",
		e.Instance, e.Why)
}

// Is makes it match ErrStuck and ErrNotYet.
func (e *StuckError) Is(target error) bool { return target == ErrStuck || target == ErrNotYet }

// notFoundError is an ErrNotFound in the words of the owner, who knows what is missing.
type notFoundError struct{ text string }

// Error gives them.
func (e *notFoundError) Error() string { return "client: " + e.text }

// Is makes it match ErrNotFound.
func (e *notFoundError) Is(target error) bool { return target == ErrNotFound }

// problem makes an error of what an owner says.
func problem(id string, p *queue.Problem) error {
	text := p.Message
	if id != "" && !strings.Contains(text, id) { // else it names what it is about
		text = "instance " + id + ": " + text
	}
	switch p.Code {
	case queue.ProblemNotFound:
		return &notFoundError{text: text}
	case queue.ProblemNotOwner:
		return fmt.Errorf("%w: %s", ErrNoOwner, p.Message)
	case queue.ProblemRefused:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	default:
		return fmt.Errorf("client: %s (%s)", text, p.Code)
	}
}
