package pawltest

import (
	"slices"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
)

// deploy checks what the code so far has made, and goes on with the new code.
func (e *Env) deploy(bindings []pawl.Binding) {
	e.tb.Helper()
	e.checkLive()
	e.code.deploy(e.tb, bindings)
	for _, in := range e.live {
		if in.now().x == nil {
			e.inputs, in.held = append(e.inputs, in.held...), nil
		} else {
			in.upgrade(bindings)
		}
	}
	var starts []letter
	e.kept = slices.DeleteFunc(e.kept, func(l letter) bool {
		s, start := l.ev.(*history.Started)
		if !start || !e.code.knows(s.Name) {
			return false
		}
		starts = append(starts, l)
		return true
	})
	for _, l := range starts {
		e.deliver(l)
	}
}

// upgrade replaces the code of an execution that has begun, if there is other code for it.
func (in *instance) upgrade(bindings []pawl.Binding) {
	in.e.tb.Helper()
	x := in.now()
	s := x.state.Started
	b, ok := in.e.code.program(s, true)
	if !ok || !has(bindings, key{name: s.Name, version: s.Version, orchestration: true}) {
		return
	}
	if err := x.x.Evict(); err != nil {
		in.failf("after turn %d: %v", x.turns, err)
	}
	x.program, x.deployed = b.Program, len(x.events)
	x.x = x.fresh()
	if err := x.x.Replay(x.events); err != nil {
		in.failf("the code that was deployed at %s does not fit instance %s: %v", in.e.Now().Format("2006-01-02 15:04:05"), in.id, err)
	}
	_, in.version = x.x.Status()
}
