package pawl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrDuplicate is two bindings of one name, and of one version, in one registry.
var ErrDuplicate = errors.New("pawl: bound twice")

// Binding is an ActivityBinding or an OrchestrationBinding.
type Binding interface {
	register(*Registry) error
}

// Registry is the set of bindings that a fleet has. It does not change once it is
// made, and may be used by several goroutines.
type Registry struct {
	activities map[string]ActivityBinding
	programs   *Programs
}

// NewRegistry makes a registry. All bad names, bad limits and duplicates are reported at
// once; the error matches ErrBadName, ErrBadLimit or ErrDuplicate.
func NewRegistry(bindings ...Binding) (*Registry, error) {
	r := &Registry{
		activities: make(map[string]ActivityBinding),
		programs:   &Programs{byName: make(map[string][]OrchestrationBinding)},
	}
	var errs []error
	for _, b := range bindings {
		errs = append(errs, b.register(r))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (b ActivityBinding) register(r *Registry) error {
	if b.err != nil {
		return b.err
	}
	if _, dup := r.activities[b.name]; dup {
		return fmt.Errorf("%w: activity %s", ErrDuplicate, b.name)
	}
	r.activities[b.name] = b
	return nil
}

func (b OrchestrationBinding) register(r *Registry) error { return r.programs.add(b) }

// Activity gives the binding of the name, if there is one.
func (r *Registry) Activity(name string) (ActivityBinding, bool) {
	b, ok := r.activities[name]
	return b, ok
}

// Orchestration gives the binding of the name whose version is the newest, if there is one.
func (r *Registry) Orchestration(name string) (OrchestrationBinding, bool) {
	return r.programs.Asked(name, "")
}

// Programs gives the orchestrations, by name and version.
func (r *Registry) Programs() *Programs { return r.programs }

// Activities lists the names of the activities, sorted.
func (r *Registry) Activities() []string { return slices.Sorted(maps.Keys(r.activities)) }

// Orchestrations lists the names of the orchestrations, sorted.
func (r *Registry) Orchestrations() []string { return r.programs.Names() }

// Queues lists the task queues of the activities, sorted, each once.
func (r *Registry) Queues() []string {
	queues := make(map[string]struct{})
	for _, b := range r.activities {
		queues[b.queue] = struct{}{}
	}
	return slices.Sorted(maps.Keys(queues))
}
