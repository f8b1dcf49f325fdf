package replay

// Waiting counts the strands in the future's list.
func (f *Future) Waiting() int {
	n := 0
	for w := f.waiters.head; w != nil; w = w.next {
		n++
	}
	return n
}
