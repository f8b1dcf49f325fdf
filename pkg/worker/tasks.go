package worker

import (
	"sync"
	"time"

	"github.com/pawlrun/pawl/pkg/lease"
)

// maxUnregistered bounds the number of names for which a missing handler is logged.
const maxUnregistered = 1000

// taskSet is the tasks of a worker.
type taskSet struct {
	large        largeRoom  // for large inputs of those that run
	mu           sync.Mutex // also guards the state of the tasks
	all          map[*task]struct{}
	abandoned    map[*task]struct{} // until they return
	idle         chan struct{}      // closed when there are no tasks; nil unless the worker stops
	unregistered map[string]bool    // names of activities for which a missing handler was logged
}

func newTaskSet() taskSet {
	return taskSet{large: newLargeRoom(), all: make(map[*task]struct{}), abandoned: make(map[*task]struct{}), unregistered: make(map[string]bool)}
}

// add adds a delivered task.
func (s *taskSet) add(t *task) {
	s.mu.Lock()
	s.all[t] = struct{}{}
	s.mu.Unlock()
}

// remove removes a task after its last reply.
func (s *taskSet) remove(t *task) {
	s.mu.Lock()
	delete(s.all, t)
	if s.idle != nil && len(s.all) == 0 {
		close(s.idle)
		s.idle = nil
	}
	s.mu.Unlock()
}

// holds records that a task has acquired its lease.
func (s *taskSet) holds(t *task, hold *lease.Hold) {
	s.mu.Lock()
	t.state.hold, t.state.phase = hold, holding
	s.mu.Unlock()
}

// cancelled records the end of a task's context.
func (s *taskSet) cancelled(t *task) {
	s.mu.Lock()
	t.state.cancelledAt = time.Now()
	s.mu.Unlock()
}

// returned records that the handler of a task has returned, and reports whether the task was abandoned before.
func (s *taskSet) returned(t *task) (abandoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.state.returned = !t.state.abandoned
	delete(s.abandoned, t)
	return t.state.abandoned
}

// freed records that the slot of a task is free.
func (s *taskSet) freed(t *task) {
	s.mu.Lock()
	t.state.free = true
	s.mu.Unlock()
}

// abandon records that a task is abandoned, and returns the number of abandoned tasks.
func (s *taskSet) abandon(t *task) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.state.abandoned = true
	s.abandoned[t] = struct{}{}
	return len(s.abandoned)
}

// keepStacks keeps the stacks of tasks that were abandoned.
func (s *taskSet) keepStacks(tasks []*task, stacks map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		t.state.stack = stacks[t.token]
	}
}

func (s *taskSet) abandonedCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.abandoned)
}

// redeliver reports whether the message of a task must be returned to the queue: its claim is not answered, and it was not returned.
func (s *taskSet) redeliver(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state.phase != claiming {
		return false
	}
	t.state.phase = redelivering
	return true
}

// list returns the tasks that match.
func (s *taskSet) list(match func(*taskState) bool) []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*task
	for t := range s.all {
		if match(&t.state) {
			out = append(out, t)
		}
	}
	return out
}

// claiming lists the tasks whose claim is not answered, and whose message was not returned.
func (s *taskSet) claiming() []*task {
	return s.list(func(t *taskState) bool { return t.phase == claiming })
}

// running lists the tasks whose handler runs and is not abandoned.
func (s *taskSet) running() []*task {
	return s.list(func(t *taskState) bool { return t.hold != nil && !t.returned && !t.abandoned })
}

// slotsByQueue returns the number of slots that tasks have, by queue.
func (s *taskSet) slotsByQueue() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int)
	for t := range s.all {
		if !t.state.free {
			out[t.task.Queue]++
		}
	}
	return out
}

// tokens returns the tokens of all tasks.
func (s *taskSet) tokens() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]bool, len(s.all))
	for t := range s.all {
		out[t.token] = true
	}
	return out
}

// whenIdle returns a channel that is closed when the last task is removed. No task may be added after the call.
func (s *taskSet) whenIdle() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := make(chan struct{})
	if len(s.all) == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	return idle
}

// firstUnregistered reports whether the missing handler of an activity is to be logged.
func (s *taskSet) firstUnregistered(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unregistered[name] || len(s.unregistered) >= maxUnregistered {
		return false
	}
	s.unregistered[name] = true
	return true
}
