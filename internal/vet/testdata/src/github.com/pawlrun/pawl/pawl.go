// Package pawl has the signatures of the real one, as far as the analyzer's tests use them.
package pawl

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

type (
	Context                    struct{ c chan int }
	None                       struct{}
	Activity[In, Out any]      struct{}
	Orchestration[In, Out any] struct{}
	Event[T any]               struct{}
	Future[T any]              struct{}
	Selectable                 interface{ future() }
	Binding                    struct{}
	CallOption                 interface{ option() }
)

func NewActivity[In, Out any](string) (a Activity[In, Out])           { return }
func NewOrchestration[In, Out any](string) (o Orchestration[In, Out]) { return }
func NewEvent[T any](string) (e Event[T])                             { return }

func (Activity[In, Out]) Do(func(context.Context, In) (Out, error)) (b Binding)   { return }
func (Activity[In, Out]) Call(*Context, In, ...CallOption) (o Out, e error)       { return }
func (Activity[In, Out]) Start(*Context, In, ...CallOption) (f *Future[Out])      { return }
func (Orchestration[In, Out]) Do(func(*Context, In) (Out, error)) (b Binding)     { return }
func (Event[T]) Next(*Context) (f *Future[T])                                     { return }
func (f *Future[T]) Get(ctx *Context) (t T, err error)                            { <-ctx.c; return }
func (f *Future[T]) Cancel(string)                                                {}
func (f *Future[T]) Ready() bool                                                  { return false }
func Go[T any](*Context, func(*Context) (T, error)) (f *Future[T])                { return }
func Scope(ctx *Context, fn func(*Context) error) error                           { return fn(ctx) }
func (f *Future[T]) future()                                                      {}
func (ctx *Context) Logger() (l *slog.Logger)                                     { return }
func Now(*Context) time.Time                                                      { return time.Now() }
func NewID(*Context) (id string)                                                  { return }
func Rand(*Context) (r *rand.Rand)                                                { return }
func Logger(*Context) (l *slog.Logger)                                            { return }
func Detach(ctx *Context) *Context                                                { return ctx }
func After(*Context, time.Duration) (f *Future[None])                             { return }
func Sleep(ctx *Context, d time.Duration) error                                   { <-ctx.c; return nil }
func Select(*Context, ...Selectable) (s Selectable, err error)                    { return }
func SideEffect[T any](*Context, func() (T, error)) (t T, err error)              { return }
func Await(*Context, func() bool) error                                           { return nil }
func Map[A, B any](*Context, int, []A, func(*Context, A) (B, error)) ([]B, error) { return nil, nil }
