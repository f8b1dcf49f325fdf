package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/turn"
)

// leaveGrace bounds how long a hand-over waits for outstanding turns, requests and publishes, and for spans that are emitted again.
const leaveGrace = 5 * time.Second

// headBytes is the length of the random prefix, of five bits per character, that all heads of a tenure share. Every record stores a head.
const headBytes = 12

// shard is one tenure of one partition: the owner, which decides, and the parts that deliver its messages and carry out its effects.
type shard struct {
	process *Process
	shell   *shell
	actor   *core.Owner
	reader  inputReader
	queries queries
}

func newShard(ctx context.Context, s *Process, t *partition.Tenure) *shard {
	st := store.Tenure{Part: t.Part, Token: t.Token, Secret: t.Secret}
	sh := &shell{
		process: s, tenure: t, st: st, seal: st.Seal(), log: s.log.With("partition", t.Part), box: newMailbox(), turns: newTurner(s.turners.ticks), ctx: ctx, began: time.Now(),
		resident: resident{residents: make(map[string]turn.Code), running: make(map[string]*turnRun), guests: make(map[string]guest), remoteTurns: make(map[string]*guestTurn), failed: make(map[string]bool)}, direct: newDirect(s.conn.Reserve),
	}
	cfg := core.Config{
		ReconcileInterval: s.cfg.ReconcileInterval, MaxClaims: s.cfg.MaxClaims, Parked: max(s.cfg.Parked/s.cfg.Partitions, 16), Retention: s.cfg.Retention,
		FailDiverged: s.cfg.FailDiverged, Programs: s.cfg.Programs, Global: s.cfg.Global, Elsewhere: true,
	}
	begin := core.TenureStart{Seal: sh.seal, Heads: rand.Text()[:headBytes] + ".", Applied: t.Applied, Commits: t.Commits()}
	now := sh.now()
	s.trace.begin(t.Part, now, &cfg, &begin)
	return &shard{process: s, shell: sh, actor: core.New(cfg, begin, now), reader: inputReader{s, sh}, queries: queries{s, sh}}
}

// run runs the tenure until it ends. For its results see partition.Config.Run.
func (s *shard) run() error {
	life, endLife := context.WithCancel(context.WithoutCancel(s.shell.ctx))
	s.shell.life = life
	s.process.turners.add(s.shell.turns)
	defer s.process.turners.remove(s.shell.turns)
	reading, stopReading := context.WithCancel(s.shell.ctx)
	subs, err := s.subscribe()
	s.process.shards.add(s)
	if err == nil {
		err = s.takeOver()
	}
	var emitted <-chan struct{}
	if err == nil {
		emitted = s.shell.emitAgain()
	}
	read := make(chan struct{})
	go func(began bool) {
		defer close(read)
		if began {
			s.shell.announce()
			s.reader.run(reading)
		}
	}(err == nil)
	if err == nil {
		err = s.loop()
	}
	stopReading()
	if err == nil {
		if err = s.leave(emitted); err == nil {
			s.process.spans.flush(s.shell.life, s.shell.log)
		}
	}
	for _, sub := range subs {
		sub.Stop()
	}
	s.process.shards.remove(s)
	endLife()
	<-read
	s.shell.box.close()
	s.shell.effects.Wait()
	s.step(&core.Message{Kind: core.TenureEnded})
	s.shell.direct.close()
	s.shell.turns.close()
	return asTenureError(err)
}

// asTenureError converts an error of the store that ends the tenure to the error that the keeper expects.
func asTenureError(err error) error {
	switch {
	case errors.Is(err, record.ErrFenced):
		return fmt.Errorf("%w: %w", err, partition.ErrLost)
	case errors.Is(err, record.ErrRolledBack):
		return fmt.Errorf("%w: %w", err, partition.ErrRolledBack)
	default:
		return err
	}
}

// loop handles messages until the tenure ends. It returns nil for a hand-over, and an error for any other end.
func (s *shard) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.shell.ctx.Done():
			if cause := context.Cause(s.shell.ctx); !errors.Is(cause, partition.ErrHandover) {
				return cause
			}
			return s.actor.Err()
		case <-s.shell.box.wake:
			s.shell.box.each(s.handle)
		case <-timer.C:
			s.step(&core.Message{Kind: core.WakeupsDue})
		}
		if err := s.actor.Err(); err != nil {
			return err
		}
		timer.Reset(time.Until(s.actor.NextPoll()))
	}
}

// handle handles one item of the mailbox.
func (s *shard) handle(m *mail) {
	if m.awaited != nil {
		if a, known := s.shell.awaited(m.ID); known {
			m.awaited <- a
		}
		close(m.awaited)
		return
	}
	if m.turned != nil {
		s.shell.turned(m.turned)
	}
	if m.guest != nil && !s.shell.guestDone(m.guest) {
		return
	}
	s.step(&m.Message)
}

// step has the owner handle one message, and carries out its effects.
func (s *shard) step(m *core.Message) {
	now := s.shell.now()
	s.process.trace.message(s.shell.st.Part, now, m, s.actor)
	effects := s.actor.Step(now, m)
	for i := range effects {
		s.process.trace.effect(s.shell.st.Part, &effects[i])
		s.shell.do(&effects[i])
	}
	if seq, caughtUp := s.actor.Applied(); caughtUp {
		s.shell.lag.known.Store(seq + 1)
	}
	if m.Kind == core.CommitAnswered {
		s.shell.direct.commitAnswered(m.ID, m.Err)
	}
	s.process.met.drain(s.actor.Counts())
	if err := s.actor.Err(); errors.Is(err, core.ErrIllegal) {
		failpoint.Illegal(err)
	}
}

// takeOver begins the tenure. It reads what must be reconciled at once: stalled instances, because this process may have the code or the key
// that they lack, and, after an unclean takeover, every instance whose effects the previous owner may not have sent.
func (s *shard) takeOver() error {
	ctx, stop := context.WithTimeout(s.shell.ctx, s.process.cfg.ReconcileInterval)
	defer stop()
	s.process.declines.forget(time.Now())
	found := &core.Takeover{Stalls: make(map[string]string), Clean: s.shell.tenure.Clean, Lost: s.process.lost.get(), Watched: s.process.watched.get(), Policies: s.process.policies.latest.Load()}
	ids, err := s.process.store.StalledIDs(ctx, s.shell.st.Part)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	for some := range slices.Chunk(ids, maxStalled) {
		stalls, err := s.process.store.StalledReasons(ctx, s.shell.st.Part, some)
		if err != nil {
			return fmt.Errorf("take over: %w", err)
		}
		maps.Copy(found.Stalls, stalls)
	}
	// Doorbells that workers sent during the hand-over had no receiver. The wakeups of their instances
	// are at most two seconds away, and are brought forward here.
	span := core.FirstPause
	if !s.shell.tenure.Clean || s.process.lost.within(s.process.cfg.ReconcileInterval) {
		span += s.process.cfg.ReconcileInterval
	}
	if found.Now, found.Due, err = s.process.store.Wakeups(ctx, s.shell.st.Part, span); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	s.step(&core.Message{Kind: core.TenureBegan, Body: found})
	return nil
}

// leave waits until outstanding turns and requests have ended, publishes are acknowledged, and the spans of the last owner are emitted
// (nil: they need not be), so that the next owner has nothing to repair.
func (s *shard) leave(emitted <-chan struct{}) error {
	s.step(&core.Message{Kind: core.HandoverBegan})
	timeout := time.NewTimer(leaveGrace)
	defer timeout.Stop()
	for {
		instances, publishes := s.actor.Outstanding()
		if instances+publishes == 0 && emitted == nil {
			return s.actor.Unfinished()
		}
		select {
		case <-emitted:
			emitted = nil
		case <-s.shell.box.wake:
			s.shell.box.each(s.handle)
		case <-timeout.C:
			return fmt.Errorf("hand-over: %d instances and %d publishes still outstanding; spans of the last owner emitted: %t", instances, publishes, emitted == nil)
		case <-s.shell.tenure.Dropped():
			return fmt.Errorf("hand-over: no time left, with %d instances and %d publishes outstanding; spans of the last owner emitted: %t", instances, publishes, emitted == nil)
		}
		if err := s.actor.Err(); err != nil {
			return err
		}
	}
}

// subscribe subscribes to the doorbells of the partition, the notices of limits and the requests of clients.
func (s *shard) subscribe() ([]*transport.Subscription, error) {
	doorbells, err := s.process.conn.OnDoorbells(s.shell.st.Part, func(received []message.Doorbell) {
		if received = s.shell.proven(received); len(received) > 0 {
			s.shell.post(core.Message{Kind: core.DoorbellsReceived, Doorbells: received})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for doorbells: %w", err)
	}
	requests, err := request.Serve(s.process.conn, s.shell.st.Part, s.queries.serve)
	if err != nil {
		return []*transport.Subscription{doorbells}, fmt.Errorf("listen for requests: %w", err)
	}
	notices, err := s.process.conn.OnLimitNotices(s.shell.st.Part, func(ws []message.LimitNotice) { s.shell.post(core.Message{Kind: core.NoticesReceived, Body: ws}) })
	if err != nil {
		return []*transport.Subscription{doorbells, requests}, fmt.Errorf("listen for notices of limits: %w", err)
	}
	return []*transport.Subscription{doorbells, requests, notices}, nil
}

// proven removes doorbells whose proof is invalid. The completion that a doorbell carries takes part in a turn, and frees a slot of a limit,
// before Redis is read, so a forged one must not reach the owner. Dropping a genuine doorbell costs only time: its instance is
// due two seconds after the push. proven runs on the goroutine of the subscription.
func (s *shell) proven(doorbells []message.Doorbell) []message.Doorbell {
	return slices.DeleteFunc(doorbells, func(b message.Doorbell) bool {
		if s.st.VerifyProof(b.Instance, b.Effect, b.Element, b.Proof) {
			return false
		}
		s.process.met.forgedDoorbells.Inc()
		s.log.Warn("doorbell without proof dropped", "instance", b.Instance)
		return true
	})
}
