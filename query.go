package pawl

import (
	"cmp"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Query is the handle of a query: a question about the state of an instance, which its code answers without an effect.
//
//	var Remaining = pawl.NewQuery[string, int]("remaining")
//
//	err := Remaining.Handle(ctx, func(item string) (int, error) { return stock[item], nil }) // in the orchestration
//
//	at, err := client.Query(ctx, c, Remaining, "order-42", "bolts") // outside
//
// A query is answered from the history of the instance as it is committed, by a replay beside the instance: it delays no turn, changes
// nothing whatever its handler does, and works for an instance that is not in memory, is stalled, or has ended. The answer names the
// number of events that it is based on.
type Query[In, Out any] struct {
	handle[In, Out]

	name string
	in   form
	out  form
	err  error
}

// NewQuery declares a query. An invalid name (see ValidateName), or a type that cannot be a payload (ErrUnencodable), is the error of
// every use of the handle.
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

// Handle answers the queries of the handle with fn, from now on in this execution. An error of fn is the error of the query.
//
// fn reads the variables of the code. It must return within 50 ms and must not use operations of this package: they return a *Misuse, or
// panic with it. A panic is the error of the query, ErrPanic.
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
			answer, err = encode(q.out, out, pawlcodec.MaxInline)
		}
		if err != nil {
			return history.Payload{}, author.ToFailure(err)
		}
		return answer, nil
	}))
}
