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
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	hostTurners      = 8           // goroutines that run the code of guests
	maxHostRequests  = 1024        // open requests; further ones are answered as busy, and their owners try another member
	maxHostBytes     = 128 << 20   // of the open requests
	maxHostHistories = 16          // histories in memory for open turns
	progressInterval = time.Second // between the messages that keep the owner of an open turn waiting
	hostedCodeTTL    = time.Minute // idle time after which the code of a guest is dropped
)

// host decides turns and answers queries for owners that lack the code. It has turners and a watchdog of its own, because those of partitions come
// and go with their tenures.
type host struct {
	*Process

	member   *pool.Member
	turners  []*turner
	reading  chan struct{} // semaphore of histories in memory
	querying chan struct{} // semaphore of queries
	wg       sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends with the host
	stop     context.CancelFunc

	mu       sync.Mutex
	closing  bool
	requests int                // number of open requests
	bytes    int                // size of the open requests
	open     map[*hostTurn]bool // open turns
	code     map[string]hosted  // by instance
}

// hosted is the code of a guest between two turns.
type hosted struct {
	turn.Code

	after string // id of its latest turn
	used  time.Time
}

func newHost(s *Process, watched *turners) *host {
	h := &host{
		Process: s, member: pool.NewMember(s.conn, s.cfg.Member), reading: make(chan struct{}, maxHostHistories), querying: make(chan struct{}, maxReplicas),
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

// joinPool joins the pool of members as a caller, which sends turns whose code this process lacks, and as a host, which decides those of others.
// It appends to cleanups what ends that.
func (s *Process) joinPool(cleanups *[]func()) (err error) {
	if s.caller, err = pool.NewCaller(s.conn); err != nil {
		return err
	}
	*cleanups = append(*cleanups, s.caller.Close)
	watched := newTurners(s.cfg.TurnLimit)
	h := newHost(s, watched)
	var watch sync.WaitGroup
	ctx, stopWatch := context.WithCancel(context.Background())
	watch.Go(func() { watched.watch(ctx) })
	watch.Go(h.tick)
	*cleanups = append(*cleanups, func() {
		h.close()
		stopWatch()
		watch.Wait()
	})
	return h.member.Join(s.cfg.Programs, h.request)
}

// close answers the open requests and evicts the code in memory. Requests that take longer than their owners would wait for a message of this
// member are answered as busy.
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

// request begins to handle a request; it does not block.
func (h *host) request(to string, r pool.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests >= maxHostRequests || h.bytes+r.Size > maxHostBytes {
		return h.member.Answer(to, &pool.Answer{Busy: true, Missing: fmt.Sprintf("orchestrator %s is busy with %d requests", h.cfg.Member, h.requests)})
	}
	h.requests++
	h.bytes += r.Size
	if r.Query != nil {
		h.wg.Go(func() { h.query(to, r.Query, r.Size) })
		return nil
	}
	g := &r.Turn.Given
	t := &hostTurn{host: h, to: to, id: r.Turn.ID, size: r.Size}
	h.open[t] = true
	t.process, t.backend, t.instance, t.given = h.Process, t, g.Identity.Instance, g
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

// prepare finds the code of a turn and reads its history, and then queues it.
func (h *host) prepare(t *hostTurn, part int) {
	g := t.given
	if missing := bind(&h.cfg, g); missing != "" {
		t.answer(&pool.Answer{Missing: missing})
		return
	}
	if g.Place.Length > 0 {
		h.reading <- struct{}{}
		t.hasHistory = true
		if err := h.read(part, g); err != nil {
			t.answer(&pool.Answer{Missing: fmt.Sprintf("orchestrator %s cannot decide the turn: %v", h.cfg.Member, err)})
			return
		}
	}
	h.turnerOf(t.instance).do(t)
}

// bind sets the code of a turn, and records its version in a start. It returns a message if this process does not have the code.
func bind(cfg *Config, g *core.Given) (missing string) {
	find := cfg.Programs.Recorded
	if g.Place.Length == 0 {
		find = cfg.Programs.Requested
	}
	b, ok := find(g.Name, g.Place.Version)
	if !ok {
		return fmt.Sprintf("orchestrator %s does not have orchestration %q, version %q", cfg.Member, g.Name, g.Place.Version)
	}
	if g.Program = b.Program; len(g.Inputs) > 0 && g.Place.Length == 0 {
		if s, ok := g.Inputs[0].Ev.(*history.Started); ok {
			s.Version = b.Version
		}
	}
	return ""
}

// read reads the history on which the turn is decided.
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

// tick reports progress to the owners of open turns, and drops idle code, every progressInterval.
func (h *host) tick() {
	for outage.Sleep(h.ctx, timers.Until(progressInterval)) {
		h.mu.Lock()
		for id, c := range h.code {
			if time.Since(c.used) > hostedCodeTTL {
				h.drop(id, c)
			}
		}
		open := slices.Collect(maps.Keys(h.open))
		h.mu.Unlock()
		for _, t := range open {
			_ = h.member.Progress(t.to) // if it is lost, the next one follows in a second
		}
	}
}

// keep keeps the code of a turn in memory, unless the host is closing. The least recently used code is dropped to make room.
func (h *host) keep(t *hostTurn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	if other, ok := h.code[t.instance]; ok { // from a turn of a previous owner
		h.drop(t.instance, other)
	}
	h.code[t.instance] = hosted{Code: t.code, after: t.id, used: time.Now()}
	if len(h.code) > h.cfg.Parked {
		h.makeRoom()
	}
	return true
}

// makeRoom drops an eighth of the code, so that it runs rarely. The caller holds the mutex.
func (h *host) makeRoom() {
	type use struct {
		id string
		hosted
	}
	all := make([]use, 0, len(h.code)) // least recently used first
	for id, c := range h.code {
		all = append(all, use{id, c})
	}
	slices.SortFunc(all, func(a, b use) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.id, b.id)) })
	for _, u := range all[:len(all)/8+1] {
		h.drop(u.id, u.hosted)
	}
}

// drop removes code from memory. The caller holds the mutex.
func (h *host) drop(id string, c hosted) {
	delete(h.code, id)
	h.evict(id, c)
}

func (h *host) evict(id string, c hosted) {
	if c.Exec != nil && !c.Exec.Ended() {
		h.turnerOf(id).do(&eviction{process: h.Process, log: h.log, instance: id, exec: c.Exec})
	}
}

// finish ends a request, and answers it. If data could not be read or written because the host is closing, the answer is busy, so that the owner
// tries another member.
func (h *host) finish(to string, size int, a *pool.Answer) {
	h.mu.Lock()
	h.requests--
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

	host *host
	to   string
	id   string
	size int // of the request, in bytes

	hasHistory bool // it holds a place in host.reading
}

func (t *hostTurn) answer(a *pool.Answer) {
	if t.hasHistory {
		<-t.host.reading
	}
	t.host.mu.Lock()
	delete(t.host.open, t)
	t.host.mu.Unlock()
	t.host.finish(t.to, t.size, a)
}

func (t *hostTurn) turnDone(*turnRun) {
	switch {
	case t.decided.Err != nil || t.decided.Early || t.decided.Heavy:
		t.answer(pool.AnswerOf(t.given, t.decided, replay.Awaited{}))
	default:
		t.answer(pool.AnswerOf(t.given, t.decided, t.code.Exec.Awaited()))
		if t.code.Settle(); !t.code.Exec.Ended() && t.host.keep(t) {
			t.given, t.decided, t.code = nil, nil, turn.Code{} // the code still refers to t, to load objects; free the rest
			return
		}
	}
	t.late()
}

func (t *hostTurn) loadObject(name string, size, opens int) ([]byte, error) {
	return t.host.loadForTurn(t.host.ctx, t.host.turnerOf(t.instance), name, size, opens)
}

// storeObjects writes the large payloads of the turn before the answer, and so before the commit.
func (t *hostTurn) storeObjects(instance string, objects []sealing.Object) error {
	return t.host.putObjects(t.host.ctx, t.host.turnerOf(instance), instance, objects)
}

func (t *hostTurn) turnBlocked(*turnRun) {
	reportAbandoned(t.host.log, t.host.met, t.instance, "in a turn")
	t.answer(&pool.Answer{Blocked: true})
}

// query answers a query from a replica.
func (h *host) query(to string, q *pool.Query, size int) {
	a := &pool.Answer{}
	defer func() { h.finish(to, size, a) }()
	h.querying <- struct{}{} // before the history takes memory
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
	r, err := h.queryReplica(q.Query, q.Payload, q.Identity.Instance, q.Identity.Execution, events, h.loader(h.ctx))
	if err != nil {
		a.Missing = err.Error()
		return
	}
	a.Query = &pool.QueryAnswer{Events: r.Events, Result: r.Result, Failure: r.Failure}
}
