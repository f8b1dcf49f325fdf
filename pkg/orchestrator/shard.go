package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// leaveGrace is for a hand-over to end what is under way.
const leaveGrace = 5 * time.Second

// shard is one tenure of one partition: the actor, which decides, and around it what carries messages to it and carries out its effects.
type shard struct {
	*shell
	actor   *actor
	reader  inputReader
	queries queries
}

func newShard(ctx context.Context, s *shared, t *partition.Tenure) *shard {
	st := store.Tenure{Part: t.Part, Token: t.Token, Secret: t.Secret}
	sh := &shell{
		shared: s, tenure: t, st: st, seal: st.Seal(), log: s.log.With("partition", t.Part), box: newMailbox(), turns: newTurner(), ctx: ctx,
	}
	a := newActor(environment{
		cfg: s.cfg, log: sh.log, met: s.met, programs: s.programs, policies: s.policies, descendants: s.descendants, lost: s.lost, watched: s.watched,
		partitionOf: s.conn.PartitionOf, connected: s.conn.Connected, newHead: nuid.Next, over: func() bool { return ctx.Err() != nil },
	}, t, time.Now())
	return &shard{shell: sh, actor: a, reader: inputReader{sh}, queries: queries{shell: sh, unserved: &a.leases.unserved}}
}

// post hands a message to the shard.
func (s *shard) post(m message) { s.box.post(m) }

// run is the tenure. See partition.Config.Run for what it returns.
func (s *shard) run() error {
	life, die := context.WithCancel(context.WithoutCancel(s.ctx))
	s.life = life
	s.turners.add(s.turns)
	defer s.turners.remove(s.turns)
	reading, stopReading := context.WithCancel(s.ctx)
	subs, err := s.subscribe()
	s.shards.add(s)
	if err == nil {
		err = s.takeOver()
	}
	read := make(chan struct{})
	go func(began bool) {
		defer close(read)
		if began {
			s.announce()
			s.reader.run(reading)
		}
	}(err == nil)
	if err == nil {
		err = s.loop()
	}
	stopReading()
	if err == nil {
		err = s.leave()
	}
	for _, sub := range subs {
		sub.Stop()
	}
	s.shards.remove(s)
	die()
	<-read
	s.box.close()
	s.waits.Wait()
	s.actor.end()
	s.execute()
	s.turns.close()
	return err
}

// loop ends with the tenure: nil for a hand-over, an error for anything else.
func (s *shard) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			if cause := context.Cause(s.ctx); !errors.Is(cause, partition.ErrHandover) {
				return cause
			}
			return s.actor.err
		case <-s.box.wake:
			s.box.each(s.step)
		case <-timer.C:
			s.step(&message{kind: wakeupsDue})
		}
		if s.actor.err != nil {
			return s.actor.err
		}
		s.actor.schedule.startDeferred()
		s.execute()
		timer.Reset(time.Until(s.actor.schedule.pollAt))
	}
}

// step handles one message, and carries out the effects behind it.
func (s *shard) step(m *message) {
	s.trace.message(s.st.Part, m)
	s.actor.step(time.Now(), m)
	s.execute()
}

// execute carries out the effects that have been collected.
func (s *shard) execute() {
	effects := s.actor.effects
	for i := range effects {
		s.trace.effect(s.st.Part, &effects[i])
		s.do(&effects[i])
		effects[i] = effect{}
	}
	s.actor.effects = effects[:0]
}

// takeOver reads what must be reconciled at once: what is stalled, for this process may have what it lacks, and, if the last owner has
// died, everything that it may have left unsent.
func (s *shard) takeOver() error {
	ctx, stop := context.WithTimeout(s.ctx, s.cfg.Look)
	defer stop()
	found := takeover{stalls: make(map[string]string)}
	ids, err := s.store.StalledIDs(ctx, s.st.Part)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	for some := range slices.Chunk(ids, maxStalled) {
		stuck, err := s.store.StalledReasons(ctx, s.st.Part, some)
		if err != nil {
			return fmt.Errorf("take over: %w", err)
		}
		maps.Copy(found.stalls, stuck)
	}
	// The doorbell of what a worker pushed during the hand-over had no receiver: its wake-up is
	// at most two seconds ahead, and is brought forward here.
	span := firstPause
	if !s.tenure.Clean || s.lost.within(s.cfg.Look) {
		span += s.cfg.Look
	}
	if found.now, found.due, err = s.store.Wakeups(ctx, s.st.Part, span); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	s.actor.clock.tick(time.Now())
	s.actor.schedule.takeOver(found, s.tenure.Clean)
	s.execute()
	return nil
}

// leave finishes what is under way and lets the publishes be acknowledged, so that
// the next owner has nothing to repair.
func (s *shard) leave() error {
	a := s.actor
	a.leaving = true
	timeout := time.NewTimer(leaveGrace)
	defer timeout.Stop()
	for a.busy > 0 || a.publishing > 0 {
		select {
		case <-s.box.wake:
			s.box.each(s.step)
		case <-timeout.C:
			return fmt.Errorf("hand-over: %d instances and %d publishes still under way", a.busy, a.publishing)
		case <-s.tenure.Dropped():
			return fmt.Errorf("hand-over: no time left, with %d instances and %d publishes under way", a.busy, a.publishing)
		}
		if a.err != nil {
			return a.err
		}
	}
	return a.schedule.unfinished()
}

// subscribe listens to what hurries the partition and to the requests of clients.
func (s *shard) subscribe() ([]*queue.Subscription, error) {
	bells, err := s.conn.OnDoorbells(s.st.Part, func(bs []queue.Doorbell) {
		if bs = s.proven(bs); len(bs) > 0 {
			s.post(message{kind: doorbellsReceived, bells: bs})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for doorbells: %w", err)
	}
	asks, err := request.Serve(s.conn, s.st.Part, s.queries.serve)
	if err != nil {
		return []*queue.Subscription{bells}, fmt.Errorf("listen for requests: %w", err)
	}
	words, err := s.conn.OnLimitNotices(s.st.Part, func(ws []queue.LimitNotice) { s.post(message{kind: noticesReceived, body: ws}) })
	if err != nil {
		return []*queue.Subscription{bells, asks}, fmt.Errorf("listen for words of gates: %w", err)
	}
	return []*queue.Subscription{bells, asks, words}, nil
}

// proven drops the doorbells without proof, before they cost anything: the completion of one would be turned, and free a
// place at a gate, before Redis is asked. One that was genuine all the same costs nothing but time: its instance is due two
// seconds after the push. It runs on the subscription's goroutine.
func (s *shell) proven(bells []queue.Doorbell) []queue.Doorbell {
	return slices.DeleteFunc(bells, func(b queue.Doorbell) bool {
		if s.st.VerifyProof(b.Instance, b.Effect, b.Element, b.Proof) {
			return false
		}
		s.met.forgedBells.Inc()
		s.log.Warn("doorbell without proof dropped", "instance", b.Instance)
		return true
	})
}
