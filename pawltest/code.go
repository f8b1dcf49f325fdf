package pawltest

import (
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

// code is what the fleets have: bindings, and the fakes in front of them.
type code struct {
	bindings []pawl.Binding
	registry *author.Registry
	fakes    []pawl.Binding
}

func (c *code) set(tb testing.TB, bindings []pawl.Binding) {
	tb.Helper()
	registry, err := author.NewRegistry(bindings...)
	if err != nil {
		tb.Fatal(err)
	}
	c.bindings, c.registry = bindings, registry
}

// key tells bindings apart: an activity has no version.
type key struct {
	name, version string
	orchestration bool
}

func keyOf(b pawl.Binding) key {
	switch b := b.(type) {
	case pawl.OrchestrationBinding:
		return key{name: b.Name(), version: b.Version(), orchestration: true}
	case pawl.ActivityBinding:
		return key{name: b.Name()}
	default:
		return key{}
	}
}

// deploy puts bindings in the place of those of the same name and version.
func (c *code) deploy(tb testing.TB, bindings []pawl.Binding) {
	tb.Helper()
	all := append([]pawl.Binding(nil), bindings...)
	for _, old := range c.bindings {
		if !has(bindings, keyOf(old)) {
			all = append(all, old)
		}
	}
	c.set(tb, all)
}

func has(bindings []pawl.Binding, k key) bool {
	for _, b := range bindings {
		if keyOf(b) == k {
			return true
		}
	}
	return false
}

func (c *code) fake(tb testing.TB, b pawl.Binding) {
	tb.Helper()
	if _, err := author.NewRegistry(b); err != nil {
		tb.Fatal(err)
	}
	c.fakes = append([]pawl.Binding{b}, c.fakes...) // the last one counts
}

func (c *code) activity(name string) (author.Activity, bool) {
	for _, f := range c.fakes {
		if a, ok := f.(pawl.ActivityBinding); ok && a.Name() == name {
			return author.ActivityOf(a), true
		}
	}
	return c.registry.Activity(name)
}

// program finds the code of an execution: of the version that it asks for, if it has not
// begun, or of the one that it has recorded.
func (c *code) program(s *history.Started, begun bool) (author.Orchestration, bool) {
	for _, f := range c.fakes {
		if o, ok := f.(pawl.OrchestrationBinding); ok && o.Name() == s.Name {
			return author.OrchestrationOf(o), true
		}
	}
	if begun {
		return c.registry.Recorded(s.Name, s.Version)
	}
	return c.registry.Requested(s.Name, s.Version)
}

// knows reports whether there is any version of an orchestration.
func (c *code) knows(name string) bool {
	_, ok := c.program(&history.Started{Name: name}, false)
	return ok
}
