package client

import "sync"

// owners notifies the waits of a partition when its owner has changed. It is safe for concurrent use.
type owners struct {
	mu sync.Mutex
	of map[int]chan struct{} // by partition; closed at the next change
}

// next returns a channel that is closed at the next change of the owner of the partition.
func (o *owners) next(partition int) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	ch, ok := o.of[partition]
	if !ok {
		ch = make(chan struct{})
		if o.of == nil {
			o.of = make(map[int]chan struct{})
		}
		o.of[partition] = ch
	}
	return ch
}

// changed notifies the waits of one partition.
func (o *owners) changed(partition int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ch, ok := o.of[partition]; ok {
		close(ch)
		delete(o.of, partition)
	}
}

// allChanged notifies all waits, because announcements during a disconnection were missed.
func (o *owners) allChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ch := range o.of {
		close(ch)
	}
	clear(o.of)
}
