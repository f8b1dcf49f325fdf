package memstore

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/pkg/history"
)

// Tenure is an owner with its scheduled messages.
type Tenure struct {
	Core   *core.Owner
	Token  string
	Timers []Timer
}

// Timer is a scheduled message. A message without a kind stands for the answer to ReadHorizon at that time.
type Timer struct {
	At  int64 // Unix ms
	Msg core.Message
}

// Begin acquires the partition for a new owner, even from another one. It returns the applied position, and the first message of the
// tenure: with, completed by the instances that are due within ahead ms.
func Begin(s *Shell, token string, cfg core.Config, ahead int64, with core.Takeover) (t *Tenure, applied history.Position, first core.Message) {
	s.Store.Owner.Until = min(s.Store.Owner.Until, s.Now) // as if the previous ownership had expired
	_, at, _ := s.Store.Acquire(s.Now, token)
	applied = history.Position(at)
	with.Now, with.Due = s.Now, s.Within(ahead)
	begin := core.TenureStart{Seal: s.Store.Rules.Seal, Heads: token + ".", Applied: applied, Commits: s.Store.Owner.Commits}
	return &Tenure{Core: core.New(cfg, begin, time.UnixMilli(s.Now)), Token: token}, applied, core.Message{Kind: core.TenureBegan, Body: &with}
}

// CarryOut carries out an effect, except turns, tasks and messages, and returns its answer; nil: it has none, or it is scheduled.
func (t *Tenure) CarryOut(s *Shell, e *core.Effect) *core.Message {
	later := func(m core.Message) *core.Message {
		t.Timers = append(t.Timers, Timer{s.Now + e.After.Milliseconds(), m})
		return nil
	}
	switch e.Kind {
	case core.ReadHorizon:
		if e.After == 0 {
			return s.Horizon()
		}
		return later(core.Message{})
	case core.PostLater:
		return later(*e.Body.(*core.Message))
	case core.PostResend:
		return later(core.Message{Kind: core.ResendDue, Body: true})
	case core.ReadFleet:
		return &core.Message{Kind: core.FleetRead, Number: e.Number, Body: (*core.Served)(nil)}
	case core.ReadQueueAge: // no task waits
		return &core.Message{Kind: core.QueueAgeRead, Number: e.Number, Body: core.QueueAge{At: time.UnixMilli(s.Now)}}
	default:
		s.ListLimit(e)
		return s.Answer(e, t.Token)
	}
}

// Waits reports that no scheduled message is due.
func (t *Tenure) Waits(now int64) bool {
	return !slices.ContainsFunc(t.Timers, func(x Timer) bool { return x.At <= now })
}

// Due removes and returns the first scheduled message that is due; nil: there is none.
func (t *Tenure) Due(s *Shell) *core.Message {
	i := slices.IndexFunc(t.Timers, func(x Timer) bool { return x.At <= s.Now })
	if i < 0 {
		return nil
	}
	m := t.Timers[i].Msg
	t.Timers = slices.Delete(t.Timers, i, i+1)
	if m.Kind == 0 {
		m = *s.Horizon()
	}
	return &m
}
