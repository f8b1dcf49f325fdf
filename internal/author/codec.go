package author

import "github.com/pawlrun/pawl/pkg/history"

// Codec encodes and decodes the values of one type. It is safe for concurrent use.
type Codec[T any] interface {
	Encode(v T) (history.Payload, error)
	Decode(p history.Payload) (T, error)
}

// Handle is embedded in pawl.Activity and pawl.Orchestration.
type Handle[In, Out any] struct {
	in     Codec[In]
	out    Codec[Out]
	limits *history.Declared
}

// NewHandle returns the codecs and the limits (nil if none) in the form that a handle embeds.
func NewHandle[In, Out any](in Codec[In], out Codec[Out], limits *history.Declared) Handle[In, Out] {
	return Handle[In, Out]{in: in, out: out, limits: limits}
}

func (h Handle[In, Out]) declared() *history.Declared { return h.limits }

// Limits returns the limits that a handle declares, or nil if it has none.
func Limits(handle interface{ declared() *history.Declared }) *history.Declared {
	return handle.declared()
}

func (h Handle[In, Out]) input() Codec[In] { return h.in }

func (h Handle[In, Out]) result() Codec[Out] { return h.out }

// Input returns the codec of the inputs of an activity or an orchestration.
func Input[In any](handle interface{ input() Codec[In] }) Codec[In] { return handle.input() }

// Result returns the codec of the results of an activity or an orchestration.
func Result[Out any](handle interface{ result() Codec[Out] }) Codec[Out] { return handle.result() }

// Typed is embedded in pawl.Event and pawl.Status.
type Typed[T any] struct{ codec Codec[T] }

// NewTyped returns a codec in the form that a handle embeds.
func NewTyped[T any](c Codec[T]) Typed[T] { return Typed[T]{codec: c} }

func (t Typed[T]) value() Codec[T] { return t.codec }

// Value returns the codec of an event or a custom status.
func Value[T any](handle interface{ value() Codec[T] }) Codec[T] { return handle.value() }
