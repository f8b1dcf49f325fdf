package pawltest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
)

// code is the code of the Env: the bindings, and the fakes that replace some of them.
type code struct {
	bindings []pawl.Binding
	fakes    []pawl.Binding
	registry *author.Registry
}

// update rebuilds the registry from the bindings and the fakes.
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

// key identifies a binding. An activity has no version.
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

// deploy adds bindings, replacing those with the same name and version.
func (c *code) deploy(tb testing.TB, bindings []pawl.Binding) {
	tb.Helper()
	rest := slices.DeleteFunc(slices.Clone(c.bindings), func(old pawl.Binding) bool { return contains(bindings, keyOf(old)) })
	c.bindings = slices.Concat(bindings, rest)
	c.update(tb)
}

func contains(bindings []pawl.Binding, k key) bool {
	return slices.ContainsFunc(bindings, func(b pawl.Binding) bool { return keyOf(b) == k })
}

// fake replaces whatever is bound or faked under the name of b.
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

// has reports whether any version of the orchestration is bound or faked.
func (c *code) has(name string) bool {
	_, ok := c.registry.Requested(name, "")
	return ok
}

// deploy checks the executions made by the code so far, deploys the bindings, and continues with a new owner.
func (e *world) deploy(bindings []pawl.Binding) {
	e.checkLive()
	e.code.deploy(e.tb, bindings)
	for _, in := range slices.Clone(e.live) {
		in.upgrade(bindings)
	}
	e.part.acquire()
	e.startDeployed()
}

// upgrade replaces the code of a running execution if one of the bindings is for it.
func (in *instance) upgrade(bindings []pawl.Binding) {
	e, x := in.e, in.now()
	s := x.started
	o, ok := e.code.registry.Recorded(s.Name, s.Version)
	if !ok || x.state.End != nil || !contains(bindings, key{name: s.Name, version: s.Version, orchestration: true}) {
		return
	}
	was := e.part.resident[in.id]
	err := e.part.evict(in.id)
	x.program, x.deployed = o.Program, len(x.events)
	code, bad := was.Restore(x.events, x.fresh())
	e.part.resident[in.id] = code
	if err = cmp.Or(err, bad); err != nil {
		in.failf("the code that was deployed at %s does not fit instance %s: %v", time.UnixMilli(e.part.Now).UTC().Format("2006-01-02 15:04:05"), in.id, err)
	}
}
