package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// watched reports whether changes are published: for a while after the latest message of a watcher. Without one a commit
// costs no message.
type watched struct{ until atomic.Int64 } // Unix ms

func (w *watched) time() time.Time { return time.UnixMilli(w.until.Load()) }

// watchExtended has changes published for a while.
func (s *Process) watchExtended() {
	until := time.Now().Add(queue.WatchTTL)
	s.watched.until.Store(until.UnixMilli())
	s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.WatchExtended, Body: until}) })
}

// serveLive listens to watchers and answers requests for outcomes. What is to be undone is added to opened.
func (s *Process) serveLive(opened *[]func()) error {
	watchers, err := s.conn.OnWatching(s.watchExtended)
	if err != nil {
		return err
	}
	*opened = append(*opened, watchers.Stop)
	outcomes, err := s.conn.ServeOutcomes(s.outcome)
	if err != nil {
		return err
	}
	*opened = append(*opened, outcomes.Stop)
	return nil
}

// statusUnavailable is that of an outcome that cannot be read at the moment.
const statusUnavailable = "unavailable"

// outcome asks the owner of an instance how it ended.
func (s *Process) outcome(ctx context.Context, instance string) queue.Outcome {
	var r request.Answered
	err := request.Call(ctx, s.conn, s.conn.PartitionOf(instance), &request.Await{Instance: instance}, &r)
	p, refused := errors.AsType[*request.Problem](err)
	o := queue.Outcome{Instance: instance, Status: string(store.Running)}
	switch {
	case refused && p.Code == request.ProblemNotFound:
		o.Status, o.Error = p.Code, p.Message
	case refused:
		o.Status, o.Error, o.Code = statusUnavailable, p.Message, p.Code
	case err != nil:
		o.Status, o.Error = statusUnavailable, err.Error()
	case r.Answer != nil:
		o = r.Answer.Outcome()
	}
	return o
}
