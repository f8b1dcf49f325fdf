package pawl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Programs is a set of orchestrations by name and version: what a fleet of orchestrators
// has. It does not change once it is made, and may be used by several goroutines.
type Programs struct {
	byName map[string][]OrchestrationBinding // from the newest version to the oldest
}

// NewPrograms makes the set. All bad names, versions and limits and all duplicates are
// reported at once; the error matches ErrBadName, ErrBadLimit or ErrDuplicate.
func NewPrograms(bindings ...OrchestrationBinding) (*Programs, error) {
	p := &Programs{byName: make(map[string][]OrchestrationBinding)}
	var errs []error
	for _, b := range bindings {
		errs = append(errs, p.add(b))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Programs) add(b OrchestrationBinding) error {
	if b.err != nil {
		return b.err
	}
	same := p.byName[b.name]
	at, dup := slices.BinarySearchFunc(same, b, func(has, b OrchestrationBinding) int { return compareVersions(b.version, has.version) })
	if dup {
		return fmt.Errorf("%w: orchestration %s, version %q", ErrDuplicate, b.name, b.version)
	}
	p.byName[b.name] = slices.Insert(same, at, b)
	return nil
}

// Recorded gives the binding of the very version: the one for an instance that has it in
// its history, where empty means that it was bound without a version.
func (p *Programs) Recorded(name, version string) (OrchestrationBinding, bool) {
	for _, b := range p.byName[name] {
		if b.version == version {
			return b, true
		}
	}
	return OrchestrationBinding{}, false
}

// Asked gives the binding for an instance that is about to start and asks for the version;
// empty asks for the newest.
func (p *Programs) Asked(name, version string) (OrchestrationBinding, bool) {
	if has := p.byName[name]; version == "" && len(has) > 0 {
		return has[0], true
	}
	return p.Recorded(name, version)
}

// Names lists the names of the orchestrations, sorted.
func (p *Programs) Names() []string { return slices.Sorted(maps.Keys(p.byName)) }

// Versions lists the versions of an orchestration, from the newest to the oldest; none if
// it is not here.
func (p *Programs) Versions(name string) []string {
	versions := make([]string, 0, len(p.byName[name]))
	for _, b := range p.byName[name] {
		versions = append(versions, b.version)
	}
	return versions
}
