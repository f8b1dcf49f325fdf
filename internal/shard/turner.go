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
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/turn"
)

// turner runs orchestration code on a goroutine of its own, one job after the other.
//
// The watchdog of the process ticks all turners. A job that runs for too many ticks is
// abandoned, with its goroutine and its instance. The watchdog counts ticks instead of
// measuring time, so that code is not blamed for a pause of the whole process.
type turner struct {
	wake     chan struct{}
	watchdog *timers.Ticker
	wg       sync.WaitGroup

	mu         sync.Mutex
	jobs       []job
	running    job
	generation int // of the current goroutine; earlier ones have been abandoned
	ticks      int
	transfers  int           // objects that the running job waits for; their time does not count
	read       int           // bytes of large payloads that the running job has read
	large      chan struct{} // the semaphore in which the running job holds a place, or nil
	closed     bool
}

// job is a piece of work that may block. done runs after work, on the same goroutine.
// If the job is abandoned, blocked runs on the goroutine of the watchdog, and late
// instead of done if work returns after all.
type job interface {
	work()
	done()
	blocked()
	late()
}

func newTurner(watchdog *timers.Ticker) *turner {
	t := &turner{wake: make(chan struct{}, 1), watchdog: watchdog}
	t.wg.Add(1)
	go t.run(0)
	return t
}

// do queues a job, unless the turner is closed.
func (t *turner) do(j job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.jobs = append(t.jobs, j)
	t.watchdog.Require()
	signal(t.wake)
}

// run runs jobs until the turner is closed. Only the goroutine of the current generation counts in wg; the successor of an abandoned one takes
// over its count.
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

// finish ends the running job, and reports whether its goroutine was abandoned before.
func (t *turner) finish(generation int) (abandoned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.generation != generation {
		return true
	}
	t.running = nil
	t.shrink()
	return false
}

// tick counts one tick against the running job, and abandons it at the limit. The next jobs run once blocked has returned, so that they do not
// touch what the abandoned goroutine still uses. It reports whether there are jobs left, so that the watchdog must continue.
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

// close runs the queued jobs and waits for them; the watchdog abandons those that block.
func (t *turner) close() {
	t.mu.Lock()
	t.closed = true
	signal(t.wake)
	t.mu.Unlock()
	t.wg.Wait()
}

// turnRun is the turn of an instance as a job.
type turnRun struct {
	process   *Process
	backend   turnBackend
	instance  string
	given     *core.Given
	code      turn.Code // before the turn, and then after it
	decided   *core.Decided
	abandoned atomic.Bool // the goroutine that blocks in it still uses code
	running   atomic.Pointer[replay.Execution]
}

// turnBackend transfers the objects of a turn, and receives its end: turnDone on the goroutine of the turner, turnBlocked on that of the watchdog.
type turnBackend interface {
	loadObject(name string, size, opens int) ([]byte, error)
	storeObjects(instance string, objects []sealing.Object) error
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
		r.setRunning(r.code.Exec)
	} else if err := r.replay(); err != nil {
		_, diverged := errors.AsType[*replay.Divergence](err)
		r.decided = &core.Decided{Err: err, Diverged: diverged}
		return
	}
	r.decided = turn.Decide(r.given, r.code)
	if err := r.backend.storeObjects(r.instance, replay.TakeObjects(r.code.Exec)); err != nil && r.decided.Err == nil {
		r.decided = &core.Decided{Err: err}
	}
}

// replay replays the history, which makes the code resident.
func (r *turnRun) replay() (err error) {
	opts := r.process.replayOptions(r.instance, r.given)
	opts.Load = r.backend.loadObject
	exec := replay.New(r.given.Identity, r.given.Program, opts)
	r.code.Exec = exec
	r.setRunning(exec)
	if r.code, err = turn.Replay(r.given, exec); err == nil {
		r.process.met.replays.Inc()
	}
	return err
}

// setRunning records the code that is about to run, so that blocked can give it up.
func (r *turnRun) setRunning(exec *replay.Execution) {
	r.running.Store(exec)
	if r.abandoned.Load() {
		exec.GiveUp()
	}
}

func (r *turnRun) done() { r.backend.turnDone(r) }

// turnDone sends a decided turn to the owner.
func (s *shell) turnDone(r *turnRun) {
	failpoint.Here("orchestrator.turned")
	s.box.post(mail{Message: core.Message{Kind: core.TurnDone, ID: r.instance, Decided: r.decided}, turned: r})
}

// blocked abandons the turn to the goroutine that blocks in it. Its code unwinds at its next operation.
func (r *turnRun) blocked() {
	r.abandoned.Store(true)
	if exec := r.running.Load(); exec != nil {
		exec.GiveUp()
	}
	r.backend.turnBlocked(r)
}

// turnBlocked reports to the owner that the code of a turn blocks.
func (s *shell) turnBlocked(r *turnRun) {
	reportAbandoned(s.log, s.process.met, r.instance, "in a turn")
	s.box.post(mail{Message: core.Message{Kind: core.TurnBlocked, ID: r.instance}, turned: r})
}

// late evicts the code of an abandoned turn that has returned after all.
func (r *turnRun) late() {
	if r.code.Exec != nil {
		_ = r.code.Exec.Evict()
	}
}

// eviction is a job that ends the coroutines of an instance.
type eviction struct {
	process  *Process
	log      *slog.Logger
	instance string
	exec     *replay.Execution
	after    *turnRun // a turn that runs before the eviction, and determines the code to evict; may be nil
}

func (e *eviction) work() {
	exec := e.exec
	if t := e.after; t != nil && !t.abandoned.Load() {
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
	reportAbandoned(e.log, e.process.met, e.instance, "while it was taken out of memory")
}

// runTurn has the turner, or another member, decide a turn. The turn of an instance with a cancelled ancestor is forbidden.
func (s *shell) runTurn(id string, g *core.Given) {
	if g.Parent != nil && s.process.descendants.cancelled(g.Parent) {
		s.post(core.Message{Kind: core.TurnDone, ID: id, Decided: &core.Decided{Forbidden: true}})
		return
	}
	if g.Program == nil {
		s.runOnMember(id, g)
		return
	}
	r := &turnRun{process: s.process, backend: s, instance: id, given: g}
	if g.Resident {
		r.code = s.residents[id]
		delete(s.residents, id)
	}
	s.running[id] = r
	s.turns.do(r)
}

// turned returns the code of a turn that has ended to the residents.
func (s *shell) turned(r *turnRun) {
	delete(s.running, r.instance)
	if !r.abandoned.Load() && r.code.Exec != nil {
		s.residents[r.instance] = r.code
	}
}

// evict removes the code of an instance from memory. Another member that has it drops it by itself.
func (s *shell) evict(id string) {
	delete(s.guests, id)
	delete(s.remoteTurns, id)
	e := &eviction{process: s.process, log: s.log, instance: id, exec: s.residents[id].Exec, after: s.running[id]}
	delete(s.residents, id)
	if e.after != nil || e.exec != nil && !e.exec.Ended() {
		s.turns.do(e)
	}
}

// awaited returns what the code of an instance waits for: nothing during a turn. It returns false if the code is not in memory.
func (s *shell) awaited(id string) (a replay.Awaited, known bool) {
	if code, ok := s.residents[id]; ok {
		return code.Exec.Awaited(), true
	}
	if s.running[id] != nil {
		return a, true
	}
	g, ok := s.guests[id]
	return g.awaited, ok || s.remoteTurns[id] != nil
}

func reportAbandoned(log *slog.Logger, met *Metrics, id, when string) {
	met.abandoned.Inc()
	log.Error("orchestration code blocked, goroutine abandoned", "instance", id, "when", when)
}
