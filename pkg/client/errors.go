package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/pkg/queue"
)

// Errors of requests. Those of a result are *pawl.Failure and *pawl.Cancelled.
var (
	// ErrNotFound says that there is no instance of that id (any more).
	ErrNotFound = errors.New("client: no such instance")
	// ErrRefused says that an input can not take effect, and why.
	ErrRefused = errors.New("client: refused")
	// ErrNoStatus says that the instance has not set a custom status yet.
	ErrNoStatus = errors.New("client: no custom status")
	// ErrEnded matches an *EndedError.
	ErrEnded = errors.New("client: the instance has ended")
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

// problem makes an error of what an owner says.
func problem(id string, p *queue.Problem) error {
	switch {
	case p.Code == queue.ProblemNotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, id)
	case p.Code == queue.ProblemNotOwner:
		return fmt.Errorf("%w: %s", ErrNoOwner, p.Message)
	case p.Code == queue.ProblemRefused:
		return fmt.Errorf("%w: instance %s: %s", ErrRefused, id, p.Message)
	case id == "" || strings.Contains(p.Message, id): // it names what it is about
		return fmt.Errorf("client: %s (%s)", p.Message, p.Code)
	default:
		return fmt.Errorf("client: instance %s: %s (%s)", id, p.Message, p.Code)
	}
}
