package replay

import "github.com/pawlrun/pawl/pkg/history"

// Waiting counts the strands in the future's list.
func (f *Future) Waiting() int {
	n := 0
	for w := f.waiters.head; w != nil; w = w.next {
		n++
	}
	return n
}

// Describe names an event as in messages.
func Describe(ev history.Event) string { return describe(ev) }
