package pawl

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Orchestration is the handle of an orchestration: a name and two types. It holds no
// function, is immutable, and may be used from everywhere.
type Orchestration[In, Out any] struct {
	name   string
	limits *history.Declared // nil: none
	in     form
	out    form
	err    error
}

// NewOrchestration declares an orchestration. A name outside the alphabet (see
// ValidateName), a limit that makes no sense (see LimitOption), or a type that cannot be a payload
// (ErrUnencodable) is the error of every use of the handle.
func NewOrchestration[In, Out any](name string, opts ...OrchestrationOption) Orchestration[In, Out] {
	var s limitSettings
	for _, o := range opts {
		o.applyOrchestration(&s)
	}
	err := ValidateName(name)
	if err == nil {
		err = s.wrong()
	}
	in, out := formOf[In](), formOf[Out]()
	err = cmp.Or(err, in.err, out.err)
	return Orchestration[In, Out]{name: name, limits: s.given(), in: in, out: out, err: ofHandle("orchestration", name, err)}
}

// Name is what histories and clients know the orchestration by.
func (o Orchestration[In, Out]) Name() string { return o.name }

// BindingOption is an option of Orchestration.Do: Version.
type BindingOption interface {
	applyBinding(*OrchestrationBinding)
}

// Do binds the function that an orchestrator runs. The function must do the same
// whenever it is given the same inputs: it asks ctx for the time, for ids and for
// random numbers, starts no goroutine, reads nothing that may change, and leaves all
// work to activities. A start without an input gives it the zero value. Several versions of one orchestration may be bound side by side:
//
//	orchestrator.New(conn, Fulfil.Do(fulfil), Fulfil.Do(fulfilWithGifts, pawl.Version("2")))
func (o Orchestration[In, Out]) Do(fn func(*Context, In) (Out, error), opts ...BindingOption) OrchestrationBinding {
	b := OrchestrationBinding{name: o.name, limits: o.limits, err: o.err, program: o.program(fn)}
	for _, opt := range opts {
		opt.applyBinding(&b)
	}
	return b
}

func (o Orchestration[In, Out]) program(fn func(*Context, In) (Out, error)) replay.Program {
	return func(x *replay.Execution) replay.Ending {
		var in In
		if given := x.Input(); given.Type != "" || len(given.Data) > 0 { // nothing at all is the zero input
			var err error
			if in, err = decode[In](o.in, given); err != nil {
				return failed(fmt.Errorf("input of orchestration %s: %w", o.name, err))
			}
		}
		out, err := fn(&Context{x: x}, in)
		if err != nil {
			return failed(err)
		}
		if x.Continues() {
			return replay.Ending{}
		}
		result, err := encode(o.out, out)
		if err != nil {
			return failed(fmt.Errorf("result of orchestration %s: %w", o.name, err))
		}
		return replay.Ending{Result: result}
	}
}

func failed(err error) replay.Ending {
	var cancelled *Cancelled
	return replay.Ending{Failure: ToFailure(err), Cancelled: errors.As(err, &cancelled)}
}

// OrchestrationBinding is an orchestration together with the function that runs it.
type OrchestrationBinding struct {
	name    string
	version string
	limits  *history.Declared
	err     error
	program replay.Program
}

// Name is the orchestration's name.
func (b OrchestrationBinding) Name() string { return b.name }

// Version is recorded when an instance starts; empty for an orchestration without versions.
func (b OrchestrationBinding) Version() string { return b.version }

// Declared is what the handle says about limits. It must not be changed.
func (b OrchestrationBinding) Declared() history.Declared {
	if b.limits == nil {
		return history.Declared{}
	}
	return *b.limits
}

// Program is the function in its untyped form, for package replay.
func (b OrchestrationBinding) Program() replay.Program { return b.program }

// EncodeInput gives an input in the form that history keeps. It is for Pawl's own packages.
func (o Orchestration[In, Out]) EncodeInput(in In) (history.Payload, error) {
	return encodeFor(o.err, o.in, in)
}

// DecodeInput reads what EncodeInput wrote.
func (o Orchestration[In, Out]) DecodeInput(p history.Payload) (In, error) {
	return decode[In](o.in, p)
}

// EncodeResult gives a result in the form that history keeps.
func (o Orchestration[In, Out]) EncodeResult(out Out) (history.Payload, error) {
	return encodeFor(o.err, o.out, out)
}

// DecodeResult reads what EncodeResult wrote.
func (o Orchestration[In, Out]) DecodeResult(p history.Payload) (Out, error) {
	return decode[Out](o.out, p)
}
