package pawltest

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl"
)

// deploy checks what the code so far has made, and goes on with the new code: another owner has it.
func (e *world) deploy(bindings []pawl.Binding) {
	e.checkLive()
	e.code.deploy(e.tb, bindings)
	for _, in := range slices.Clone(e.live) {
		in.upgrade(bindings)
	}
	e.part.acquire()
	e.returned()
}

// upgrade replaces the code of an execution that has begun, if there is other code for it.
func (in *instance) upgrade(bindings []pawl.Binding) {
	e, x := in.e, in.now()
	s := x.started
	o, ok := e.code.registry.Recorded(s.Name, s.Version)
	if !ok || x.state.End != nil || !contains(bindings, key{name: s.Name, version: s.Version, orchestration: true}) {
		return
	}
	was := e.part.resident[in.id]
	e.part.evict(in.id)
	x.program, x.deployed = o.Program, len(x.events)
	code, err := was.Restore(x.events, x.fresh())
	e.part.resident[in.id] = code
	if err != nil {
		in.failf("the code that was deployed at %s does not fit instance %s: %v", time.UnixMilli(e.part.Now).UTC().Format("2006-01-02 15:04:05"), in.id, err)
	}
}
