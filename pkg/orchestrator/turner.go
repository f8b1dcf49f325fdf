package orchestrator

import "sync"

// turner runs user code on a goroutine of its own, one job after the other.
//
// The watchdog of the process ticks all turners. A job that has been running for
// too many ticks is left behind: the goroutine, the job and its instance. Ticks are
// counted, not time, so that a process that was stopped does not blame its code.
type turner struct {
	wake chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	jobs    []job
	running *job
	ticks   int
	closed  bool
}

// job is a piece of work that may block. done runs after work, on the same
// goroutine. If the job was left behind meanwhile, blocked has run, and after work
// comes late instead of done.
type job struct {
	work, done, blocked, late func()
	left                      bool // behind; under the turner's mutex
}

func newTurner() *turner {
	t := &turner{wake: make(chan struct{}, 1)}
	t.wg.Add(1)
	go t.run()
	return t
}

// do queues a job. Nothing is queued after close.
func (t *turner) do(j job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.jobs = append(t.jobs, j)
	t.signal()
}

func (t *turner) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run has the turner's one place in the group. When it is left behind, its successor has it.
func (t *turner) run() {
	for {
		j, ended := t.next()
		if ended {
			t.wg.Done()
			return
		}
		if j == nil {
			<-t.wake
			continue
		}
		j.work()
		if t.finish(j) {
			j.late()
			return
		}
		j.done()
	}
}

func (t *turner) next() (j *job, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.jobs) == 0 {
		return nil, t.closed
	}
	first := t.jobs[0]
	t.jobs[0] = job{}
	t.jobs = t.jobs[1:]
	t.running, t.ticks = &first, 0
	return &first, false
}

// finish reports whether the job has been left behind.
func (t *turner) finish(j *job) (left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !j.left {
		t.running = nil
	}
	return j.left
}

// tick counts one tick against the running job and leaves it behind at the limit.
func (t *turner) tick(limit int) {
	t.mu.Lock()
	j := t.running
	t.ticks++
	if j == nil || t.ticks < limit {
		t.mu.Unlock()
		return
	}
	j.left = true
	t.running, t.ticks = nil, 0
	go t.run()
	t.mu.Unlock()
	j.blocked()
}

// close lets the jobs in the queue run and joins; what is stuck is left behind by the watchdog.
func (t *turner) close() {
	t.mu.Lock()
	t.closed = true
	t.signal()
	t.mu.Unlock()
	t.wg.Wait()
}
