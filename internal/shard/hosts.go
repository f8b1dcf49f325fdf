package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	hostTurners = 8           // goroutines that run the code of guests
	hostWaiting = 1024        // requests that are open; of more their owners ask another member
	hostBytes   = 128 << 20   // of them
	hostReading = 16          // histories that are in memory for the turns of requests
	hostSlow    = time.Second // between the reports of progress to the owner of a turn
	hostIdle    = time.Minute // then the code of a guest is dropped
)

// host decides turns for the owners that lack the code. It has turners and a watchdog of its own, for partitions come and go.
type host struct {
	*Process

	member   *pool.Member
	turners  []*turner
	reading  chan struct{}
	querying chan struct{}
	wg       sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends with the host
	stop     context.CancelFunc

	mu      sync.Mutex
	closing bool
	waiting int                // requests
	bytes   int                // of them
	open    map[*hostTurn]bool // turns among them
	code    map[string]hosted  // by instance
}

// hosted is the code of an instance of another owner, between two turns.
type hosted struct {
	turn.Code

	after string // id of the turn that it is behind
	used  time.Time
}

func newHost(s *Process, watched *turners) *host {
	h := &host{
		Process: s, member: pool.NewMember(s.conn, s.cfg.Member), reading: make(chan struct{}, hostReading), querying: make(chan struct{}, maxReplicas),
		open: make(map[*hostTurn]bool), code: make(map[string]hosted),
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	for range hostTurners {
		t := newTurner(watched.ticks)
		h.turners = append(h.turners, t)
		watched.add(t)
	}
	return h
}

// joinPool opens the two sides of a member: it asks those that have code which this process lacks, and is asked. What is to be undone is
// added to opened.
func (s *Process) joinPool(opened *[]func()) (err error) {
	if s.caller, err = pool.NewCaller(s.conn); err != nil {
		return err
	}
	*opened = append(*opened, s.caller.Close)
	watched := newTurners(s.cfg.TurnLimit)
	h := newHost(s, watched)
	var watch sync.WaitGroup
	ctx, stopWatch := context.WithCancel(context.Background())
	watch.Go(func() { watched.watch(ctx) })
	watch.Go(h.tick)
	*opened = append(*opened, func() {
		h.close()
		stopWatch()
		watch.Wait()
	})
	return h.member.Join(s.cfg.Programs, h.request)
}

// close answers the requests that have arrived, for as long as their owners would wait for a sign of this member, and takes the code out of
// memory. Behind that time it answers that it stops.
func (h *host) close() {
	h.member.Leave()
	late := time.AfterFunc(h.cfg.TurnLimit+memberGrace, h.stop)
	h.wg.Wait()
	h.mu.Lock()
	h.closing = true
	for id, c := range h.code {
		h.evict(id, c)
	}
	clear(h.code)
	h.mu.Unlock()
	for _, t := range h.turners {
		t.close()
	}
	late.Stop()
	h.stop()
}

// turnerOf returns the turner of an instance.
func (h *host) turnerOf(instance string) *turner {
	f := fnv.New32a()
	_, _ = f.Write([]byte(instance)) // never fails
	return h.turners[f.Sum32()%hostTurners]
}

// request takes a request; it does not block.
func (h *host) request(to string, r pool.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting >= hostWaiting || h.bytes+r.Size > hostBytes {
		return h.member.Answer(to, &pool.Answer{Busy: true, Missing: fmt.Sprintf("orchestrator %s is busy with %d requests", h.cfg.Member, h.waiting)})
	}
	h.waiting++
	h.bytes += r.Size
	if r.Query != nil {
		h.wg.Go(func() { h.query(to, r.Query, r.Size) })
		return nil
	}
	g := &r.Turn.Given
	t := &hostTurn{host: h, to: to, id: r.Turn.ID, size: r.Size}
	h.open[t] = true
	t.process, t.end, t.instance, t.given = h.Process, t, g.Identity.Instance, g
	c, ok := h.code[t.instance]
	delete(h.code, t.instance)
	switch {
	case ok && r.Turn.After != "" && c.after == r.Turn.After:
		t.code = c.Code
		h.turnerOf(t.instance).do(t)
		return nil
	case ok:
		h.evict(t.instance, c)
	}
	h.wg.Go(func() { h.prepare(t, r.Turn.Partition) })
	return nil
}

// prepare reads the history that a turn begins with.
func (h *host) prepare(t *hostTurn, part int) {
	g := t.given
	if why := h.bind(g); why != "" {
		t.answer(&pool.Answer{Missing: why})
		return
	}
	if g.Place.Length > 0 {
		h.reading <- struct{}{}
		t.reads = true
		if err := h.read(part, g); err != nil {
			t.answer(&pool.Answer{Missing: fmt.Sprintf("orchestrator %s cannot decide the turn: %v", h.cfg.Member, err)})
			return
		}
	}
	h.turnerOf(t.instance).do(t)
}

// bind finds the code, and has a start record its version.
func (h *host) bind(g *core.Given) (missing string) {
	find := h.cfg.Programs.Recorded
	if g.Place.Length == 0 {
		find = h.cfg.Programs.Requested
	}
	b, ok := find(g.Name, g.Place.Version)
	if !ok {
		return fmt.Sprintf("orchestrator %s does not have orchestration %q, version %q", h.cfg.Member, g.Name, g.Place.Version)
	}
	if g.Program = b.Program; len(g.Inputs) > 0 && g.Place.Length == 0 {
		if s, ok := g.Inputs[0].Ev.(*history.Started); ok {
			s.Version = b.Version
		}
	}
	return ""
}

// read reads the history that the turn is decided on.
func (h *host) read(part int, g *core.Given) error {
	ctx, stop := context.WithTimeout(h.ctx, h.cfg.TurnLimit+memberGrace)
	defer stop()
	rec, err := h.store.Record(ctx, part, g.Identity.Instance)
	if err != nil {
		return err
	}
	if g.Events, err = h.store.History(ctx, part, g.Identity.Instance, g.Identity.Execution); err != nil {
		return err
	}
	if rec == nil || rec.Head != g.Place.Head || uint64(len(g.Events)) != g.Place.Length {
		return errors.New("redis has another history than the owner")
	}
	return nil
}

// tick has the owners of turns that are not decided yet wait on, and drops the code that was not used for a while.
func (h *host) tick() {
	for outage.Pause(h.ctx, timers.Until(hostSlow)) {
		h.mu.Lock()
		for id, c := range h.code {
			if time.Since(c.used) > hostIdle {
				h.drop(id, c)
			}
		}
		slow := slices.Collect(maps.Keys(h.open))
		h.mu.Unlock()
		for _, t := range slow {
			_ = h.member.Progress(t.to) // what is lost is sent again
		}
	}
}

// keep keeps code behind a turn, unless the host is closing. What was used least recently makes room.
func (h *host) keep(t *hostTurn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	if other, ok := h.code[t.instance]; ok { // of an owner before
		h.drop(t.instance, other)
	}
	h.code[t.instance] = hosted{Code: t.code, after: t.id, used: time.Now()}
	if len(h.code) > h.cfg.Parked {
		h.makeRoom()
	}
	return true
}

// makeRoom drops an eighth of the code, so that it is rare. The mutex is held.
func (h *host) makeRoom() {
	type use struct {
		id string
		hosted
	}
	all := make([]use, 0, len(h.code))
	for id, c := range h.code {
		all = append(all, use{id, c})
	}
	slices.SortFunc(all, func(a, b use) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.id, b.id)) })
	for _, u := range all[:len(all)/8+1] {
		h.drop(u.id, u.hosted)
	}
}

// drop takes code out of memory. The mutex is held.
func (h *host) drop(id string, c hosted) {
	delete(h.code, id)
	h.evict(id, c)
}

func (h *host) evict(id string, c hosted) {
	if c.Exec != nil && !c.Exec.Ended() {
		h.turnerOf(id).do(&eviction{process: h.Process, log: h.log, instance: id, exec: c.Exec})
	}
}

// answered counts a request that is over, and answers it. What could not be read or written because the host closes, another member can.
func (h *host) answered(to string, size int, a *pool.Answer) {
	h.mu.Lock()
	h.waiting--
	h.bytes -= size
	h.mu.Unlock()
	if h.ctx.Err() != nil && (a.Missing != "" || a.Object) {
		a = &pool.Answer{Busy: true, Missing: fmt.Sprintf("orchestrator %s stops", h.cfg.Member)}
	}
	if err := h.member.Answer(to, a); err != nil {
		h.log.Debug("answer to another member not sent", "error", err)
	}
}

// hostTurn is the turn of a guest as a job.
type hostTurn struct {
	turnRun

	host  *host
	to    string
	id    string
	size  int  // of the request
	reads bool // it has a place of a history
}

func (t *hostTurn) answer(a *pool.Answer) {
	if t.reads {
		<-t.host.reading
	}
	t.host.mu.Lock()
	delete(t.host.open, t)
	t.host.mu.Unlock()
	t.host.answered(t.to, t.size, a)
}

func (t *hostTurn) turnDone(*turnRun) {
	switch {
	case t.decided.Err != nil || t.decided.Early || t.decided.Heavy:
		t.answer(pool.AnswerOf(t.given, t.decided, replay.Awaited{}))
	default:
		t.answer(pool.AnswerOf(t.given, t.decided, t.code.Exec.Awaited()))
		if t.code.Settle(); !t.code.Exec.Ended() && t.host.keep(t) {
			t.given, t.decided, t.code = nil, nil, turn.Code{} // the code in memory has the turn that began it, for its objects
			return
		}
	}
	t.late()
}

// loadObject reads a large payload for the code.
func (t *hostTurn) loadObject(name string, size, opens int) ([]byte, error) {
	return t.host.loadForTurn(t.host.ctx, t.host.turnerOf(t.instance), name, size, opens)
}

// storeObjects writes the large payloads of the turn before it is answered: they are there before the commit.
func (t *hostTurn) storeObjects(instance string, objects []pawlcodec.Object) error {
	return t.host.putObjects(t.host.ctx, t.host.turnerOf(instance), instance, objects)
}

func (t *hostTurn) turnBlocked(*turnRun) {
	leftBehind(t.host.log, t.host.met, t.instance, "in a turn")
	t.answer(&pool.Answer{Blocked: true})
}

// query answers a query from a replica.
func (h *host) query(to string, q *pool.Query, size int) {
	a := &pool.Answer{}
	defer func() { h.answered(to, size, a) }()
	h.querying <- struct{}{} // before the history is in memory
	defer func() { <-h.querying }()
	ctx, stop := context.WithTimeout(h.ctx, loadTimeout)
	defer stop()
	events, err := h.store.History(ctx, q.Partition, q.Identity.Instance, q.Identity.Execution)
	if err == nil && len(events) == 0 {
		err = core.NotFound(q.Identity.Instance)
	}
	if err != nil {
		a.Missing = err.Error()
		return
	}
	got, err := h.askReplica(q.Query, q.Payload, q.Identity.Instance, q.Identity.Execution, events, h.loader(h.ctx))
	if err != nil {
		a.Missing = err.Error()
		return
	}
	a.Query = &pool.QueryAnswer{Events: got.Events, Result: got.Result, Failure: got.Failure}
}
