package author

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// ErrDuplicate is the error of a registry with two bindings of the same name and version. It is pawl.ErrDuplicate.
var ErrDuplicate = errors.New("pawl: bound twice")

// Orchestration is an orchestration together with its function, in untyped form.
type Orchestration struct {
	Name     string
	Version  string // recorded when an instance starts; empty without versions
	Declared history.Declared
	Err      error // error of the handle; a registry rejects the orchestration with it
	Program  replay.Program
	Example  func() []byte // returns the zero value of the input as JSON; may be nil
}

// OrchestrationBinding is embedded in pawl.OrchestrationBinding.
type OrchestrationBinding struct{ value Orchestration }

// BindOrchestration returns the binding of an orchestration.
func BindOrchestration(o Orchestration) OrchestrationBinding { return OrchestrationBinding{value: o} }

func (b OrchestrationBinding) orchestration() Orchestration { return b.value }

// OrchestrationOf returns the orchestration of a binding.
func OrchestrationOf(b interface{ orchestration() Orchestration }) Orchestration {
	return b.orchestration()
}

// Program returns the function of a binding.
func Program(b interface{ orchestration() Orchestration }) replay.Program {
	return b.orchestration().Program
}

// Binding is a pawl.ActivityBinding or a pawl.OrchestrationBinding.
type Binding interface {
	register(r *Registry) error
}

// Registry is the set of bindings of a fleet. It is immutable and safe for concurrent use.
type Registry struct {
	activities     map[string]Activity
	orchestrations map[string][]Orchestration // versions by name, newest first
	standIns       map[string]Orchestration   // replace all versions of a name; nil outside tests
}

// NewRegistry returns a registry. It reports all invalid names, invalid limits and duplicates together; the error matches ErrBadName,
// ErrBadLimit or ErrDuplicate of package pawl.
func NewRegistry[B Binding](bindings ...B) (*Registry, error) {
	r := &Registry{activities: make(map[string]Activity), orchestrations: make(map[string][]Orchestration)}
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
	a := b.value
	if a.Err != nil {
		return a.Err
	}
	if _, dup := r.activities[a.Name]; dup {
		return fmt.Errorf("%w: activity %s", ErrDuplicate, a.Name)
	}
	r.activities[a.Name] = a
	return nil
}

func (b OrchestrationBinding) register(r *Registry) error {
	o := b.value
	if o.Err != nil {
		return o.Err
	}
	versions := r.orchestrations[o.Name]
	at, dup := slices.BinarySearchFunc(versions, o, func(has, o Orchestration) int { return compareVersions(o.Version, has.Version) })
	if dup {
		return fmt.Errorf("%w: orchestration %s, version %q", ErrDuplicate, o.Name, o.Version)
	}
	r.orchestrations[o.Name] = slices.Insert(versions, at, o)
	return nil
}

// Activity returns the activity with the name.
func (r *Registry) Activity(name string) (Activity, bool) {
	a, ok := r.activities[name]
	return a, ok
}

// Recorded returns the orchestration with exactly this version, for an instance whose history names it. An empty version is an
// orchestration that was bound without one.
func (r *Registry) Recorded(name, version string) (Orchestration, bool) {
	if o, ok := r.standIns[name]; ok {
		return o, true
	}
	for _, o := range r.orchestrations[name] {
		if o.Version == version {
			return o, true
		}
	}
	return Orchestration{}, false
}

// Requested returns the orchestration for an instance that starts with the version. An empty version means the newest.
func (r *Registry) Requested(name, version string) (Orchestration, bool) {
	if versions := r.orchestrations[name]; version == "" && len(versions) > 0 && r.standIns[name].Program == nil {
		return versions[0], true
	}
	return r.Recorded(name, version)
}

// WithStandIns returns a registry in which each fake replaces the activity with its name, or all versions of the orchestration with its
// name.
func (r *Registry) WithStandIns(fakes *Registry) *Registry {
	out := &Registry{activities: maps.Clone(r.activities), orchestrations: r.orchestrations, standIns: make(map[string]Orchestration)}
	maps.Copy(out.activities, fakes.activities)
	for name, versions := range fakes.orchestrations {
		out.standIns[name] = versions[0]
	}
	return out
}

// Activities lists the names of the activities, sorted.
func (r *Registry) Activities() []string { return slices.Sorted(maps.Keys(r.activities)) }

// Orchestrations lists the names of the orchestrations, sorted.
func (r *Registry) Orchestrations() []string { return slices.Sorted(maps.Keys(r.orchestrations)) }

// Example returns the zero value of the input of an orchestration, as JSON, or nil if the name is unknown or there is none.
func (r *Registry) Example(name string) []byte {
	all := r.orchestrations[name]
	if len(all) == 0 || all[0].Example == nil {
		return nil
	}
	return all[0].Example()
}

// Versions lists the versions of an orchestration, newest first. It is empty for an unknown name.
func (r *Registry) Versions(name string) []string {
	versions := make([]string, 0, len(r.orchestrations[name]))
	for _, o := range r.orchestrations[name] {
		versions = append(versions, o.Version)
	}
	return versions
}

// Queues lists the task queues of the activities, sorted and without duplicates.
func (r *Registry) Queues() []string {
	queues := make(map[string]struct{})
	for _, a := range r.activities {
		queues[a.Queue] = struct{}{}
	}
	return slices.Sorted(maps.Keys(queues))
}
