package replay

import (
	"encoding/binary"
	"fmt"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/pkg/history"
)

// Child is another instance that the code starts: see Call.Child and Launch. On replay, the recorded Version and Abandon apply.
type Child struct {
	Name     string // name of the orchestration
	Version  string // version of the orchestration; empty means the newest in its orchestrator
	Instance string // instance id; empty means ChildID of its start
	// Abandon lets the child outlive its parent: it belongs to no scope, so neither the end of a scope nor that of the execution cancels
	// it. A wait for it ends like any other wait, and withdrawing its future cancels it. Launch ignores this field.
	Abandon bool
}

const (
	maxInstance = 200 // bytes of an instance id
	longHash    = 22  // characters of base64url for 128 bits
	shortHash   = 6
)

// ChildID derives the id of a child without an explicit id from the execution that starts it and the event id of its start:
//
//	<parent>~<execution>-<event>-<6 characters that depend on the parent's id and origin>
//	<the beginning of the parent's id>~<22 characters that depend on all of it>
//
// The second form is used if the first would be longer than an id may be. The id recurs neither in the next execution of the parent nor
// in another incarnation of it.
func ChildID(parent effectid.Identity, event uint64) string {
	incarnation := parent
	incarnation.Execution = 0
	id := fmt.Sprintf("%s~%d-%d-%s", parent.Instance, parent.Execution, event, effectid.Digest(incarnation.Append(nil))[:shortHash])
	if len(id) <= maxInstance {
		return id
	}
	all := binary.BigEndian.AppendUint64(parent.Append(nil), event)
	return parent.Instance[:min(len(parent.Instance), maxInstance-1-longHash)] + "~" + effectid.Digest(all)
}

// attemptID derives the id of a later attempt of a child with an explicit id: "<id>~<attempt>". It returns "" if that is longer than an
// id may be; the attempt then has a ChildID.
func attemptID(id string, attempt uint32) string {
	if id = fmt.Sprintf("%s~%d", id, attempt); len(id) > maxInstance {
		return ""
	}
	return id
}

// Launch starts another instance without a parent. Nothing is outstanding, and its end is not reported. The start is recorded once. If
// the id is in use, the start has no effect, and that is not an error. The error is that of a scope that is over, or a *history.Failure
// for a payload over the limit.
func (x *Code) Launch(child Child, payload history.Payload, in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	child.Abandon = false
	_, refused, _ := child.decide(&x.record, payload, false, true, x.tooLarge(payload, "the input of orchestration "+child.Name))
	x.exit()
	return refusal(refused)
}

// depth returns the number of ancestors of the instance.
func (x *record) depth() uint64 {
	if x.started.Parent == nil {
		return 0
	}
	return x.started.Parent.Depth
}

// scheduleChild decides the start of the call's child. An abandoned child, and the deadline of its call, belong to no scope.
func (c *call) scheduleChild() (w *work, refused *history.Failure) {
	child := *c.spec.Child
	if c.number++; c.number > 1 && child.Instance != "" {
		child.Instance = attemptID(child.Instance, c.number)
	}
	ev, refused, ok := child.decide(&c.x.record, c.spec.Payload, c.home.detached(), false, c.limited())
	if !ok {
		return nil, refused
	}
	if ev.Abandon {
		c.home = nil
	}
	return c.x.add(&work{id: ev.ID, kind: childWork, effect: ev.Effect, abandoned: ev.Abandon, owner: c}, c.home), nil
}

func (child Child) decide(
	x *record, payload history.Payload, inDetachedScope, detached bool, limited *history.Failure,
) (ev *history.ChildScheduled, refused *history.Failure, ok bool) {
	if child.Instance == "" {
		x.collectCancels() // the event id of the start comes after those of the cancellations
		child.Instance = ChildID(x.id, x.last+1)
	}
	return decide(x, &history.ChildScheduled{
		Name: child.Name, Version: child.Version, Instance: child.Instance, Payload: payload,
		Abandon: child.Abandon, Detached: detached, InDetachedScope: inDetachedScope,
	}, limited)
}
