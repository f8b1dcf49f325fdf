package worker

import (
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/leases"

	"golang.org/x/sync/semaphore"
)

// maxUnregistered is the maximum number of names for which a task that cannot run here is logged.
const maxUnregistered = 1000

// taskSet holds the tasks of a worker.
type taskSet struct {
	large        *semaphore.Weighted // limits the bytes of large inputs in memory
	mu           sync.Mutex          // also guards the state of the tasks
	all          map[*task]struct{}
	abandoned    map[*task]struct{} // tasks whose handlers have not returned yet
	idle         chan struct{}      // closed when there are no tasks; nil before the stop, and after it is closed
	unregistered map[string]bool    // activities and keys for which a task that cannot run here was logged
}

func newTaskSet() taskSet {
	return taskSet{large: semaphore.NewWeighted(largeInputs), all: make(map[*task]struct{}), abandoned: make(map[*task]struct{}), unregistered: make(map[string]bool)}
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
func (s *taskSet) holds(t *task, hold *leases.Hold) {
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

// returned records that the handler of a task has returned, and reports whether the task had been abandoned.
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

// abandon records that a task is abandoned, and returns the number of abandoned tasks whose handlers still run.
func (s *taskSet) abandon(t *task) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.state.abandoned = true
	s.abandoned[t] = struct{}{}
	return len(s.abandoned)
}

// keepStacks records the stacks of abandoned tasks.
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

// redeliver reports whether the message of a task must be returned to the queue: its claim is not answered, and the message has not been
// returned yet. It records that it is returned now.
func (s *taskSet) redeliver(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state.phase != claiming {
		return false
	}
	t.state.phase = redelivering
	return true
}

// list returns the tasks whose state satisfies match.
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

// claiming lists the tasks with unanswered claims whose messages have not been returned to the queue.
func (s *taskSet) claiming() []*task {
	return s.list(func(t *taskState) bool { return t.phase == claiming })
}

// running lists the tasks whose handlers run, without the abandoned ones.
func (s *taskSet) running() []*task {
	return s.list(func(t *taskState) bool { return t.hold != nil && !t.returned && !t.abandoned })
}

// slotsByQueue returns the number of occupied slots, by queue.
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

// whenIdle returns a channel that is closed when no tasks are left. No task may be added after the call.
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

// firstUnregistered reports whether a task that cannot run here is to be logged: it is logged once per name, for at most maxUnregistered
// names.
func (s *taskSet) firstUnregistered(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unregistered[name] || len(s.unregistered) >= maxUnregistered {
		return false
	}
	s.unregistered[name] = true
	return true
}
