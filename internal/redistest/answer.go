package redistest

// Answer makes a call that answers into a callback, and waits for the answer.
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
