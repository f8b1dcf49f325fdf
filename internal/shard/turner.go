package shard

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pawlcodec"
)

// turner runs user code on a goroutine of its own, one job after the other.
//
// The watchdog of the process ticks all turners. A job that has been running for
// too many ticks is left behind: the goroutine, the job and its instance. Ticks are
// counted, not time, so that a process that was stopped does not blame its code.
type turner struct {
	wake  chan struct{}
	watch *timers.Ticker // of the watchdog
	wg    sync.WaitGroup

	mu         sync.Mutex
	jobs       []job
	running    job
	generation int // of the goroutine: those before have been left behind
	ticks      int
	transfers  int           // of objects that the job waits for: they are no fault of its code
	read       int           // bytes of large payloads that the job has read
	large      chan struct{} // the places, of which the job has one; nil: it has none
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

func newTurner(watch *timers.Ticker) *turner {
	t := &turner{wake: make(chan struct{}, 1), watch: watch}
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
	t.watch.Require()
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
	t.shrink()
	return false
}

// tick counts one tick against the running job and leaves it behind at the limit. The jobs after it run when blocked has returned: they
// must not touch what the goroutine that was left behind still has. It reports whether there is a job, so that further ticks count.
func (t *turner) tick(limit int) (busy bool) {
	t.mu.Lock()
	j := t.running
	if t.transfers == 0 {
		t.ticks++
	}
	if j == nil || t.ticks < limit {
		defer t.mu.Unlock()
		return j != nil || len(t.jobs) > 0
	}
	t.generation++
	t.running, t.ticks = nil, 0
	t.shrink()
	successor := t.generation
	t.mu.Unlock()
	j.blocked()
	go t.run(successor)
	return true
}

// close lets the jobs in the queue run and joins; the watchdog abandons those that block.
func (t *turner) close() {
	t.mu.Lock()
	t.closed = true
	t.signal()
	t.mu.Unlock()
	t.wg.Wait()
}

// turnRun is the turn of an instance as a job.
type turnRun struct {
	process  *Process
	end      turnEnd
	instance string
	given    *core.Given
	code     turn.Code // to begin with, and then what the turn leaves
	decided  *core.Decided
	left     atomic.Bool // abandoned to the goroutine that blocks in it
	running  atomic.Pointer[replay.Execution]
}

// turnEnd has the objects of a turn, and receives how it has ended, on the goroutine of the turner, or of the watchdog.
type turnEnd interface {
	loadObject(name string, size, opens int) ([]byte, error)
	storeObjects(instance string, objects []pawlcodec.Object) error
	turnDone(r *turnRun)
	turnBlocked(r *turnRun)
}

func (r *turnRun) work() {
	if around := r.process.cfg.AroundTurn; around != nil {
		around(r.given.Identity, r.given.Name, r.decide)
		return
	}
	r.decide()
}

// decide runs the code.
func (r *turnRun) decide() {
	begin := time.Now()
	defer func() { promx.Observe(r.process.met.turnSeconds, time.Since(begin).Seconds(), exemplar(r.decided)) }()
	if r.code.Exec != nil {
		r.runs(r.code.Exec)
	} else if err := r.replay(); err != nil {
		_, diverged := errors.AsType[*replay.Divergence](err)
		r.decided = &core.Decided{Err: err, Diverged: diverged}
		return
	}
	r.decided = turn.Decide(r.given, r.code)
	if err := r.end.storeObjects(r.instance, replay.TakeObjects(r.code.Exec)); err != nil && r.decided.Err == nil {
		r.decided = &core.Decided{Err: err}
	}
}

// replay brings the code into memory.
func (r *turnRun) replay() (err error) {
	opts := r.process.replayOptions(r.instance, r.given)
	opts.Load = r.end.loadObject
	exec := replay.New(r.given.Identity, r.given.Program, opts)
	r.code.Exec = exec
	r.runs(exec)
	if r.code, err = turn.Replay(r.given, exec); err == nil {
		r.process.met.replays.Inc()
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

func (r *turnRun) done() { r.end.turnDone(r) }

// turnDone hands a decided turn to the owner.
func (s *shell) turnDone(r *turnRun) {
	failpoint.Here("orchestrator.turned")
	s.box.post(mail{Message: core.Message{Kind: core.TurnDone, ID: r.instance, Decided: r.decided}, turned: r})
}

// blocked abandons the turn to the goroutine that blocks in it. Its code unwinds at its next operation.
func (r *turnRun) blocked() {
	r.left.Store(true)
	if exec := r.running.Load(); exec != nil {
		exec.GiveUp()
	}
	r.end.turnBlocked(r)
}

// turnBlocked hands a turn to the owner whose code does not come back.
func (s *shell) turnBlocked(r *turnRun) {
	leftBehind(s.log, s.process.met, r.instance, "in a turn")
	s.box.post(mail{Message: core.Message{Kind: core.TurnBlocked, ID: r.instance}, turned: r})
}

// late evicts code that came back after all: nothing waits for it any more.
func (r *turnRun) late() {
	if r.code.Exec != nil {
		_ = r.code.Exec.Evict()
	}
}

// eviction ends the coroutines of an instance as a job. The code that a turn leaves in memory is known when that is over.
type eviction struct {
	process  *Process
	log      *slog.Logger
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
		e.log.Warn("deferred functions of evicted orchestration failed", "instance", e.instance, "error", err)
	}
}

func (e *eviction) done() {}
func (e *eviction) late() {}

func (e *eviction) blocked() {
	leftBehind(e.log, e.process.met, e.instance, "while it was taken out of memory")
}

// runTurn has the turner run a turn, unless an ancestor of the instance was cancelled before it began.
func (s *shell) runTurn(id string, g *core.Given) {
	if g.Parent != nil && s.process.descendants.cancelled(g.Parent) {
		s.post(core.Message{Kind: core.TurnDone, ID: id, Decided: &core.Decided{Forbidden: true}})
		return
	}
	if g.Program == nil {
		s.askMember(id, g)
		return
	}
	r := &turnRun{process: s.process, end: s, instance: id, given: g}
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
	forgetGuest(s, id)
	e := &eviction{process: s.process, log: s.log, instance: id, exec: s.residents[id].Exec, behind: s.running[id]}
	delete(s.residents, id)
	if e.behind != nil || e.exec != nil && !e.exec.Ended() {
		s.turns.do(e)
	}
}

// awaited gives what the code of an instance waits for: nothing in a turn. It returns false if the code is not in memory.
func (s *shell) awaited(id string) (a replay.Awaited, known bool) {
	if code, ok := s.residents[id]; ok {
		return code.Exec.Awaited(), true
	}
	if s.running[id] != nil {
		return a, true
	}
	g, ok := s.guests[id]
	return g.awaited, ok || s.asked[id] != nil
}

func leftBehind(log *slog.Logger, met *Metrics, id, when string) {
	met.leftBehind.Inc()
	log.Error("orchestration code blocked, goroutine abandoned", "instance", id, "when", when)
}
