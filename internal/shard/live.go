package shard

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
)

// watchExtended has changes published for transport.WatchTTL. Without a watcher a commit costs no message.
func (s *Process) watchExtended() {
	until := time.Now().Add(transport.WatchTTL)
	s.watched.set(until)
	s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.WatchExtended, Body: until}) })
}

// serveLive receives the messages of watchers and answers requests for outcomes. It appends to cleanups what ends that.
func (s *Process) serveLive(cleanups *[]func()) error {
	watchers, err := s.conn.OnWatching(s.watchExtended)
	if err != nil {
		return err
	}
	*cleanups = append(*cleanups, watchers.Stop)
	outcomes, err := s.conn.ServeOutcomes(s.outcome)
	if err != nil {
		return err
	}
	*cleanups = append(*cleanups, outcomes.Stop)
	return nil
}

// statusUnavailable is the status of an outcome that cannot be read at present.
const statusUnavailable = "unavailable"

// outcome requests the outcome of an instance from its owner.
func (s *Process) outcome(ctx context.Context, instance string) message.Outcome {
	var r request.Answered
	err := request.Call(ctx, s.conn, s.conn.PartitionOf(instance), &request.Await{Instance: instance}, &r)
	p, refused := errors.AsType[*request.Problem](err)
	o := message.Outcome{Instance: instance, Status: string(record.Running)}
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
