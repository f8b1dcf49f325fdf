package shard

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/turn"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/replay"
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

// turnRun is the turn of an instance as a job.
type turnRun struct {
	shell    *shell
	instance string
	given    *core.Given
	code     turn.Code // to begin with, and then what the turn leaves
	decided  *core.Decided
	left     atomic.Bool // to the goroutine that is stuck in it
	running  atomic.Pointer[replay.Execution]
}

func (r *turnRun) work() {
	begin := time.Now()
	defer func() { r.shell.met.turnSeconds.Observe(time.Since(begin).Seconds()) }()
	if r.code.Exec != nil {
		r.runs(r.code.Exec)
	} else if err := r.replay(); err != nil {
		_, diverged := errors.AsType[*replay.Divergence](err)
		r.decided = &core.Decided{Err: err, Diverged: diverged}
		return
	}
	r.decided = turn.Decide(r.given, r.code)
}

// replay brings the code into memory.
func (r *turnRun) replay() (err error) {
	exec := replay.New(r.given.Identity, r.given.Program, r.shell.replayOptions(r.instance))
	r.code.Exec = exec
	r.runs(exec)
	if r.code, err = turn.Replay(r.given, exec); err == nil {
		r.shell.met.replays.Inc()
	}
	return err
}

// runs notes the code that is about to run, so that it can be given up.
func (r *turnRun) runs(exec *replay.Execution) {
	r.running.Store(exec)
	if r.left.Load() {
		exec.GiveUp()
	}
}

func (r *turnRun) done() {
	failpoint.Here("orchestrator.turned")
	r.shell.box.post(mail{Message: core.Message{Kind: core.TurnDone, ID: r.instance, Decided: r.decided}, turned: r})
}

// blocked leaves the turn to the goroutine that is stuck in it. Its code leaves at its next word.
func (r *turnRun) blocked() {
	r.left.Store(true)
	if exec := r.running.Load(); exec != nil {
		exec.GiveUp()
	}
	r.shell.leftBehind(r.instance, "in a turn")
	r.shell.box.post(mail{Message: core.Message{Kind: core.TurnBlocked, ID: r.instance}, turned: r})
}

// late evicts code that came back after all: nothing waits for it any more.
func (r *turnRun) late() {
	if r.code.Exec != nil {
		_ = r.code.Exec.Evict()
	}
}

// eviction ends the coroutines of an instance as a job. The code that a turn leaves in memory is known when that is over.
type eviction struct {
	shell    *shell
	instance string
	exec     *replay.Execution
	behind   *turnRun // nil: none
}

func (e *eviction) work() {
	exec := e.exec
	if t := e.behind; t != nil && !t.left.Load() {
		exec = t.code.Exec
	}
	if exec == nil || exec.Ended() {
		return
	}
	if err := exec.Evict(); err != nil {
		e.shell.log.Warn("the deferred functions of an orchestration failed while it was taken out of memory", "instance", e.instance, "error", err)
	}
}

func (e *eviction) done() {}
func (e *eviction) late() {}

func (e *eviction) blocked() { e.shell.leftBehind(e.instance, "while it was taken out of memory") }

// runTurn has the turner run a turn, unless an ancestor of the instance was cancelled before it began.
func (s *shell) runTurn(id string, g *core.Given) {
	if g.Parent != nil && s.descendants.cancelled(g.Parent) {
		s.post(core.Message{Kind: core.TurnDone, ID: id, Decided: &core.Decided{Forbidden: true}})
		return
	}
	r := &turnRun{shell: s, instance: id, given: g}
	if g.Resident {
		r.code = s.residents[id]
		delete(s.residents, id)
	}
	s.running[id] = r
	s.turns.do(r)
}

// turned takes the code back from a turn that is over.
func (s *shell) turned(r *turnRun) {
	delete(s.running, r.instance)
	if !r.left.Load() && r.code.Exec != nil {
		s.residents[r.instance] = r.code
	}
}

// evict takes the code of an instance out of memory.
func (s *shell) evict(id string) {
	e := &eviction{shell: s, instance: id, exec: s.residents[id].Exec, behind: s.running[id]}
	delete(s.residents, id)
	if e.behind != nil || e.exec != nil && !e.exec.Ended() {
		s.turns.do(e)
	}
}

// awaited gives the names of the events for which the code of an instance waits, if it is in memory and between two turns.
func (s *shell) awaited(id string) []string {
	if code, ok := s.residents[id]; ok {
		return code.Exec.Awaited()
	}
	return nil
}

func (s *shell) leftBehind(id, when string) {
	s.met.leftBehind.Inc()
	s.log.Error("orchestration code blocks; its goroutine is left behind", "instance", id, "when", when)
}
