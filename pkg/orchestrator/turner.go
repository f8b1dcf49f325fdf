package orchestrator

import (
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// turner runs user code on a goroutine of its own, one job after the other.
//
// The watchdog of the process ticks all turners. A job that has been running for
// too many ticks is left behind: the goroutine, the job and its instance. Ticks are
// counted, not time, so that a process that was stopped does not blame its code.
type turner struct {
	wake chan struct{}
	wg   sync.WaitGroup

	mu         sync.Mutex
	jobs       []job
	running    job
	generation int // of the goroutine: those before have been left behind
	ticks      int
	closed     bool
}

// job is a piece of work that may block. done runs after work, on the same
// goroutine. If the job was left behind meanwhile, blocked has run, and after work
// comes late instead of done.
type job interface {
	work()
	done()
	blocked()
	late()
}

func newTurner() *turner {
	t := &turner{wake: make(chan struct{}, 1)}
	t.wg.Add(1)
	go t.run(0)
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
func (t *turner) run(generation int) {
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
		if t.finish(generation) {
			j.late()
			return
		}
		j.done()
	}
}

func (t *turner) next() (j job, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.jobs) == 0 {
		return nil, t.closed
	}
	j = t.jobs[0]
	t.jobs[0] = nil
	t.jobs = t.jobs[1:]
	t.running, t.ticks = j, 0
	return j, false
}

// finish reports whether the goroutine has been left behind.
func (t *turner) finish(generation int) (left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.generation != generation {
		return true
	}
	t.running = nil
	return false
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
	t.generation++
	t.running, t.ticks = nil, 0
	go t.run(t.generation)
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

// decision is what a turn is made from.
type decision struct {
	identity history.Identity
	program  replay.Program
	events   []history.Event // loaded, and not yet replayed
	inputs   []unread
	local    []history.Event // inputs that no inbox has
}

// turnRun is the turn of an instance as a job.
type turnRun struct {
	turn  *turn
	shell *shell
}

func (r *turnRun) work() {
	begin := time.Now()
	defer func() { r.shell.met.turnSeconds.Observe(time.Since(begin).Seconds()) }()
	t, d := r.turn, &r.turn.from
	if t.exec == nil {
		t.runs(replay.New(d.identity, d.program, r.shell.replayOptions(t.in.id)))
		if t.err = t.exec.Replay(d.events); t.err != nil {
			return
		}
		r.shell.met.replays.Inc()
	} else {
		t.runs(t.exec)
	}
	_, t.sets = t.exec.Status()
	t.run(d.inputs, d.local)
	t.continueAsNew()
}

func (r *turnRun) done() {
	failpoint.Here("orchestrator.turned")
	r.shell.box.post(message{kind: turnDone, turn: r.turn})
}

func (r *turnRun) blocked() {
	r.turn.giveUp()
	r.shell.leftBehind(r.turn.in.id, "in a turn")
	r.shell.box.post(message{kind: turnBlocked, turn: r.turn})
}

// late evicts code that came back after all: nothing waits for it any more.
func (r *turnRun) late() {
	if r.turn.exec != nil {
		_ = r.turn.exec.Evict()
	}
}

// eviction ends the coroutines of an instance as a job.
type eviction struct {
	shell    *shell
	instance string
	code     func() *replay.Execution
}

func (e *eviction) work() {
	exec := e.code()
	if exec == nil {
		return
	}
	if err := exec.Evict(); err != nil {
		e.shell.log.Warn("the deferred functions of an orchestration failed while it was taken out of memory", "instance", e.instance, "error", err)
	}
}

func (e *eviction) done() {}
func (e *eviction) late() {}

func (e *eviction) blocked() { e.shell.leftBehind(e.instance, "while it was taken out of memory") }

func (s *shell) leftBehind(id, when string) {
	s.met.leftBehind.Inc()
	s.log.Error("orchestration code blocks; its goroutine is left behind", "instance", id, "when", when)
}
