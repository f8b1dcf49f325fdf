package shard

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// Queries, and descriptions of instances that are not resident, run on replicas: see decision 65.
//
//	request ──▶ read the history ──▶ replay (5 s) ──▶ handler (50 ms) ──▶ reply, evict
//	                                     └────────────────┴── timeout: refused; the goroutine counts against maxReplicas until it returns

const (
	queryTime   = 50 * time.Millisecond
	replayTime  = 5 * time.Second
	maxReplicas = 8 // of a process

	maxDescribed = 1000 // events that a description replays, which takes a few milliseconds
	describeTime = 500 * time.Millisecond
)

func cannotAnswer(format string, args ...any) error {
	return &request.Problem{Code: request.ProblemRefused, Message: fmt.Sprintf(format, args...)}
}

// query answers a query from a replica of the instance.
func (qs *queries) query(ctx context.Context, q *request.Query) (request.Reply, error) {
	events, execution, err := qs.committed(ctx, q.Instance)
	if err != nil {
		return nil, err
	}
	if start, ok := events[0].(*history.Started); ok {
		if _, here := qs.process.cfg.Programs.Recorded(start.Name, start.Version); !here {
			id := effectid.Identity{Instance: q.Instance, Origin: start.Origin, Execution: execution}
			return queryPool(ctx, qs.shell, &pool.Query{Partition: qs.shell.st.Part, Identity: id, Name: start.Name, Version: start.Version, Query: q.Name, Payload: q.Payload})
		}
	}
	return qs.process.queryReplica(q.Name, q.Payload, q.Instance, execution, events, qs.process.loader(qs.shell.life))
}

// queryReplica runs a query on a replica.
func (s *Process) queryReplica(name string, input history.Payload, id string, execution uint64, events []history.Event, load sealing.Load) (*request.QueryAnswer, error) {
	r := &request.QueryAnswer{Execution: execution, Events: uint64(len(events))}
	var found bool
	var names []string
	err := s.onReplica("query "+name, id, execution, events, replayTime, load, func(x *replay.Execution) {
		if r.Result, r.Failure, found = x.Query(name, input); !found {
			names = x.Queries()
		}
	})
	if err == nil && !found {
		err = cannotAnswer("instance %s has no query %s; it has %s", id, name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return r, err
}

// queryPool has a member that has the code answer a query.
func queryPool(ctx context.Context, s *shell, q *pool.Query) (request.Reply, error) {
	type result struct {
		body []byte
		err  error
	}
	got := make(chan result, 1)
	findMember(s.process, q.Name, q.Version, false, func(f pool.Found, err error) {
		if err != nil {
			got <- result{err: err}
			return
		}
		r := pool.Request{Query: q}
		s.process.caller.Send(f.At, r.Encode(""), replayTime+memberGrace, func(b []byte, err error) { got <- result{b, err} })
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-got:
		if r.err != nil {
			return nil, cannotAnswer("query %s: %s", q.Query, missing(q.Name, q.Version, r.err))
		}
		a, err := pool.DecodeAnswer(r.body)
		switch {
		case err != nil:
			return nil, err
		case a.Query == nil:
			return nil, cannotAnswer("%s", a.Missing)
		default:
			return &request.QueryAnswer{Execution: q.Identity.Execution, Events: a.Query.Events, Result: a.Query.Result, Failure: a.Query.Failure}, nil
		}
	}
}

// awaitedByReplica returns what the code of an instance that is not resident waits for. It returns nothing if the instance has more than
// maxDescribed events, or its code cannot be replayed or receives large payloads.
func (s *Process) awaitedByReplica(id string, execution uint64, events []history.Event) (none replay.Awaited) {
	if len(events) == 0 || len(events) > maxDescribed {
		return none
	}
	var a replay.Awaited
	err := s.onReplica("description", id, execution, events, describeTime, nil, func(x *replay.Execution) { a = x.Awaited() })
	if err != nil {
		return none
	}
	return a
}

// onReplica replays an instance and calls use with the replica. If onReplica returns an error, use may still be running, and the caller must not
// read what it writes.
func (s *Process) onReplica(what, id string, execution uint64, events []history.Event, within time.Duration, load sealing.Load, use func(*replay.Execution)) error {
	start, ok := events[0].(*history.Started)
	if !ok {
		return fmt.Errorf("instance %s: the history does not begin with a start: %w", id, eventcodec.ErrCorrupt)
	}
	b, ok := s.cfg.Programs.Recorded(start.Name, start.Version)
	if !ok {
		return cannotAnswer("the orchestrator that owns instance %s does not have orchestration %s", id, start.Name)
	}
	select {
	case s.replicas <- struct{}{}:
	default:
		return cannotAnswer("%s: %d queries are running in this orchestrator; repeat it later", what, maxReplicas)
	}
	exec := replay.New(effectid.Identity{Instance: id, Origin: start.Origin, Execution: execution}, b.Program, replay.Options{Limits: s.cfg.Limits, Codec: s.cfg.Codec, Load: load})
	replayed, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer func() { <-s.replicas }()
		err := exec.Replay(events)
		if replayed <- err; err != nil {
			return
		}
		defer func() { _ = exec.Evict() }()
		use(exec)
		close(done)
	}()
	slow := time.NewTimer(within)
	defer slow.Stop()
	select {
	case err := <-replayed:
		if err != nil {
			return cannotAnswer("%s: the history of instance %s cannot be replayed: %v", what, id, err)
		}
	case <-slow.C:
		exec.GiveUp()
		return cannotAnswer("%s: the replay of instance %s takes longer than %s", what, id, within)
	}
	slow.Reset(queryTime)
	select {
	case <-done:
		return nil
	case <-slow.C:
		exec.GiveUp()
		return cannotAnswer("%s of instance %s was not answered within %s", what, id, queryTime)
	}
}

// committed reads the history of the latest execution that has one.
func (qs *queries) committed(ctx context.Context, id string) ([]history.Event, uint64, error) {
	rec, err := qs.process.store.Record(ctx, qs.shell.st.Part, id)
	if err != nil {
		return nil, 0, err
	}
	if rec == nil {
		return nil, 0, qs.pending(ctx, id, cannotAnswer("instance %s has not begun", id))
	}
	for execution := rec.Execution; execution > 0 && execution+1 >= rec.Execution; execution-- {
		events, err := qs.process.store.History(ctx, qs.shell.st.Part, id, execution)
		if err != nil || len(events) > 0 {
			return events, execution, err
		}
	}
	return nil, 0, cannotAnswer("instance %s has no history: it has not begun, or was purged in this moment", id)
}
