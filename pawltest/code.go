package pawltest

import (
	"slices"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
)

// code is what the fleets have: bindings, and the fakes in front of them.
type code struct {
	bindings []pawl.Binding
	fakes    []pawl.Binding
	registry *author.Registry
}

// update makes the registry of what is bound and faked.
func (c *code) update(tb testing.TB) {
	tb.Helper()
	bound, err := author.NewRegistry(c.bindings...)
	if err != nil {
		tb.Fatal(err)
	}
	fakes, err := author.NewRegistry(c.fakes...)
	if err != nil {
		tb.Fatal(err)
	}
	c.registry = bound.WithStandIns(fakes)
}

// key identifies a binding: an activity has no version.
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
		if !contains(bindings, keyOf(old)) {
			all = append(all, old)
		}
	}
	c.bindings = all
	c.update(tb)
}

func contains(bindings []pawl.Binding, k key) bool {
	for _, b := range bindings {
		if keyOf(b) == k {
			return true
		}
	}
	return false
}

// fake puts a binding in the place of what is bound, or faked, under its name.
func (c *code) fake(tb testing.TB, b pawl.Binding) {
	tb.Helper()
	k := keyOf(b)
	c.fakes = slices.DeleteFunc(c.fakes, func(old pawl.Binding) bool {
		was := keyOf(old)
		return was.name == k.name && was.orchestration == k.orchestration
	})
	c.fakes = append(c.fakes, b)
	c.update(tb)
}

// has reports whether there is any version of an orchestration.
func (c *code) has(name string) bool {
	_, ok := c.registry.Requested(name, "")
	return ok
}
