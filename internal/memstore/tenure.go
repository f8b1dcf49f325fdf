package memstore

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/pkg/history"
)

// Tenure is an owner, and the messages that it has ordered for later.
type Tenure struct {
	Core   *core.Owner
	Token  string
	Timers []Timer
}

// Timer is a message that comes later; one of no kind reports how far the stream is then.
type Timer struct {
	At  int64
	Msg core.Message
}

// Begin has an owner acquire the partition, also from another. It returns up to where the store has the stream, and the message that the tenure
// begins with: with what is due within so many ms, and what else the caller puts into it.
func Begin(s *Shell, token string, cfg core.Config, ahead int64, with core.Takeover) (t *Tenure, applied history.Position, first core.Message) {
	s.Store.Owner.Until = min(s.Store.Owner.Until, s.Now) // it waits until it may
	_, at, _ := s.Store.Acquire(s.Now, token)
	applied = history.Position(at)
	with.Now, with.Due = s.Now, s.Within(ahead)
	begin := core.Beginning{Seal: s.Store.Rules.Seal, Heads: token + ".", Applied: applied, Commits: s.Store.Owner.Commits}
	return &Tenure{Core: core.New(cfg, begin, time.UnixMilli(s.Now)), Token: token}, applied, core.Message{Kind: core.TenureBegan, Body: &with}
}

// CarryOut carries out an effect, but for turns, tasks and messages; nil: nothing answers it, or it does later.
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

// Waits reports whether the time of a message has not come.
func (t *Tenure) Waits(now int64) bool {
	return !slices.ContainsFunc(t.Timers, func(x Timer) bool { return x.At <= now })
}

// Due takes out the first message whose time has come; nil: there is none.
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
