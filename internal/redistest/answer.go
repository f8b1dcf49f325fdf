package redistest

// Answer makes a call that passes its result to a callback, and waits for the result.
func Answer[T any](call func(done func(T, error))) (T, error) {
	type answer struct {
		v   T
		err error
	}
	ch := make(chan answer, 1)
	call(func(v T, err error) { ch <- answer{v, err} })
	a := <-ch
	return a.v, a.err
}
