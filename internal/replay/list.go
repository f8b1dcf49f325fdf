package replay

// list is an intrusive queue: its nodes are part of their elements, so waiting does not allocate, and leaving from the middle is O(1). No
// stale nodes accumulate when a long-lived future is waited for repeatedly.
type list[T any] struct {
	head, tail *node[T]
}

type node[T any] struct {
	prev, next *node[T]
	in         *list[T] // nil while the node is in no list
	value      T
}

func (l *list[T]) push(n *node[T]) {
	n.in, n.prev, n.next = l, l.tail, nil
	if l.tail == nil {
		l.head = n
	} else {
		l.tail.next = n
	}
	l.tail = n
}

// unlink removes the node from its list, if any.
func (n *node[T]) unlink() {
	l := n.in
	if l == nil {
		return
	}
	if n.prev == nil {
		l.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in, n.prev, n.next = nil, nil, nil
}
