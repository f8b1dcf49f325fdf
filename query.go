package pawl

import (
	"cmp"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// Query is the handle of a query: a question about the state of an instance, which its code answers without any effect.
//
//	var Remaining = pawl.NewQuery[string, int]("remaining")
//
//	err := Remaining.Handle(ctx, func(item string) (int, error) { return stock[item], nil }) // in the orchestration
//
//	at, err := client.Query(ctx, c, Remaining, "order-42", "bolts") // outside
//
// A query is answered by a replica, which is replayed from the committed history of the instance. It therefore delays no turn, cannot
// change the instance whatever its handler does, and also works if the instance is not in memory, is stalled, or has ended. The answer
// includes the number of history events that it is based on.
type Query[In, Out any] struct {
	handle[In, Out]

	name string
	in   form
	out  form
	err  error
}

// NewQuery declares a query. If the name is invalid (see ValidateName) or a type cannot be a payload (ErrUnencodable), every use of the
// handle returns that error.
func NewQuery[In, Out any](name string) Query[In, Out] {
	in, out := formOf[In](), formOf[Out]()
	err := ValidateName(name)
	if err == nil {
		err = ofHandle("query", name, cmp.Or(in.err, out.err))
	}
	return Query[In, Out]{handle: handleOf[In, Out](in, out, nil, err), name: name, in: in, out: out, err: err}
}

// Name returns the query's name.
func (q Query[In, Out]) Name() string { return q.name }

// Handle registers fn as the handler of the query, for the rest of this execution. An error of fn is returned to the caller of the query.
//
// fn reads the variables of the orchestration's code. It must return within 50 ms and must not use operations of this package: they
// return a *Misuse, or panic with it. If fn panics, the query fails with ErrPanic.
func (q Query[In, Out]) Handle(ctx *Context, fn func(In) (Out, error)) error {
	if q.err != nil {
		return q.err
	}
	return authorError(ctx.x.SetQuery(q.name, func(p history.Payload) (history.Payload, *history.Failure) {
		in, err := decode[In](q.in, p)
		var out Out
		if err == nil {
			out, err = fn(in)
		}
		var answer history.Payload
		if err == nil {
			answer, err = encode(q.out, out, sealing.MaxInline)
		}
		if err != nil {
			return history.Payload{}, author.ToFailure(err)
		}
		return answer, nil
	}))
}
