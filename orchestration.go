package pawl

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// Orchestration is the handle of an orchestration: a name and two types. It holds no function and is immutable, so any package may use
// it. Do binds the function that an orchestrator runs.
type Orchestration[In, Out any] struct {
	handle[In, Out]

	name   string
	limits *history.Declared // nil: none
	in     form
	out    form
	err    error
}

// NewOrchestration declares an orchestration. If the name is invalid (see ValidateName), a limit is invalid (see LimitOption), or a type
// cannot be a payload (ErrUnencodable), every use of the handle returns that error.
func NewOrchestration[In, Out any](name string, opts ...OrchestrationOption) Orchestration[In, Out] {
	var s limitSettings
	for _, o := range opts {
		o.applyOrchestration(&s)
	}
	err := ValidateName(name)
	if err == nil {
		err = s.validate()
	}
	in, out := formOf[In](), formOf[Out]()
	err = ofHandle("orchestration", name, cmp.Or(err, in.err, out.err))
	limits := s.declaration()
	return Orchestration[In, Out]{handle: handleOf[In, Out](in, out, limits, err), name: name, limits: limits, in: in, out: out, err: err}
}

// Name returns the orchestration's name, as recorded in histories.
func (o Orchestration[In, Out]) Name() string { return o.name }

// BindingOption is an option of Orchestration.Do: Version.
type BindingOption interface {
	applyBinding(b *author.Orchestration)
}

// Do binds the function that an orchestrator runs. The function must be deterministic: it takes the time, ids and random numbers from
// ctx, starts no goroutine, reads nothing that may change, and leaves all I/O to activities. If the instance is started without an input,
// the function receives the zero value. Several versions of one orchestration may be bound together:
//
//	orchestrator.New(cfg, Fulfil.Do(fulfil), Fulfil.Do(fulfilWithGifts, pawl.Version("2")))
func (o Orchestration[In, Out]) Do(fn func(*Context, In) (Out, error), opts ...BindingOption) OrchestrationBinding {
	b := author.Orchestration{Name: o.name, Err: o.err, Program: o.program(fn), Example: o.example}
	if o.limits != nil {
		b.Declared = *o.limits
	}
	for _, opt := range opts {
		opt.applyBinding(&b)
	}
	return OrchestrationBinding{author.BindOrchestration(b)}
}

// example returns the zero value of the input as JSON. The console's start form is filled with it.
func (o Orchestration[In, Out]) example() []byte {
	var in In
	p, err := encode(o.in, in, sealing.MaxInline)
	if err != nil {
		return nil
	}
	return p.Data
}

func (o Orchestration[In, Out]) program(fn func(*Context, In) (Out, error)) replay.Program {
	return func(x *replay.Code) replay.Ending {
		var in In
		if p := x.Input(); p.Type != "" || len(p.Data) > 0 { // without an input, in keeps its zero value
			var err error
			if in, err = decode[In](o.in, p); err != nil {
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
		result, err := encode(o.out, out, replay.PayloadLimit(x))
		if err != nil {
			return failed(fmt.Errorf("result of orchestration %s: %w", o.name, err))
		}
		return replay.Ending{Result: result}
	}
}

func failed(err error) replay.Ending {
	var cancelled *Cancelled
	return replay.Ending{Failure: author.ToFailure(err), Cancelled: errors.As(err, &cancelled)}
}

type orchestrationBinding = author.OrchestrationBinding

// OrchestrationBinding is an orchestration together with the function that an orchestrator runs. It is immutable.
type OrchestrationBinding struct{ orchestrationBinding }

// Name returns the orchestration's name.
func (b OrchestrationBinding) Name() string { return author.OrchestrationOf(b).Name }

// Version returns the version that is recorded when an instance starts. It is empty for an orchestration without versions.
func (b OrchestrationBinding) Version() string { return author.OrchestrationOf(b).Version }
