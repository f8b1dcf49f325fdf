// Package recording records the messages of a partition's owner, and replays them: an owner is a deterministic function of its messages.
// A recording is part of the trace. Each message is a line that begins with a mark, followed by the lines of its effects.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// recordMark follows the partition in a line of the recording.
const recordMark = " # "

// Recorder writes the recording of one tenure.
type Recorder struct{ Partition int }

// recording is one line.
type recording struct {
	Now     time.Time
	Begin   *core.TenureStart `json:",omitempty"`
	Config  *core.Config      `json:",omitempty"`
	Message *core.Message     `json:",omitempty"` // without the fields below
	Err     *recordedError    `json:",omitempty"`
	Turn    *recordedTurn     `json:",omitempty"`
	Loaded  *recordedLoad     `json:",omitempty"`
}

// recordedError is an error, with the names of the sentinels that it matches.
type recordedError struct {
	Text string
	Is   []string `json:",omitempty"`
}

// recordedTurn holds the fields of a decided turn that encoding/json cannot encode.
type recordedTurn struct {
	First   uint64 // id of the first event
	Overdue [][]byte
	Replies []recordedReply `json:",omitempty"`
	Err     string
}

// recordedReply is a reply to the parent of a start.
type recordedReply struct {
	Instance string
	Done     *message.Done
}

// recordedLoad is an instance that was loaded.
type recordedLoad struct {
	Record           *record.Record
	Events, Previous [][]byte
	Unread           [][]byte
}

func sentinels() map[string]error {
	return map[string]error{
		"conflict": record.ErrConflict, "fenced": record.ErrFenced, "rolled back": record.ErrRolledBack, "refused": record.ErrRefused,
		"newer": eventcodec.ErrNewerVersion, "corrupt": eventcodec.ErrCorrupt, "too large": message.ErrTooLarge, "malformed": message.ErrMalformed,
		"bad instance": message.ErrBadInstance, "bad name": message.ErrBadName,
	}
}

// Begin returns the line for the beginning of a tenure.
func (r Recorder) Begin(now time.Time, cfg *core.Config, begin *core.TenureStart) string {
	return r.line(&recording{Now: now, Config: cfg, Begin: begin})
}

// Message returns the line for a message that is about to be handled.
func (r Recorder) Message(now time.Time, m *core.Message) string {
	out := &recording{Now: now, Err: recordError(m.Err)}
	plain := *m
	plain.Err, out.Message = nil, &plain
	if l, ok := m.Body.(record.Loaded); ok {
		plain.Body, out.Loaded = nil, &recordedLoad{Record: l.Record, Events: encodeAll(l.Events), Previous: encodeAll(l.Previous), Unread: l.Unread}
	}
	if d := m.Decided; d != nil {
		decided := *d
		out.Turn = &recordedTurn{Overdue: encodeAll(d.Overdue)}
		if len(d.Events) > 0 {
			out.Turn.First = d.Events[0].Meta().ID
		}
		for _, r := range d.Replies {
			out.Turn.Replies = append(out.Turn.Replies, recordedReply{Instance: r.Instance, Done: r.Done})
		}
		if d.Err != nil {
			out.Turn.Err = d.Err.Error()
		}
		decided.Fold, decided.Events, decided.Overdue, decided.Replies, decided.Err, plain.Decided = nil, nil, nil, nil, nil, &decided
	}
	return r.line(out)
}

func (r Recorder) line(l *recording) string {
	b, err := json.Marshal(l) //nolint:musttag // only the build that wrote it reads it
	if err != nil {
		return fmt.Sprintf("p%d cannot be recorded: %v", r.Partition, err)
	}
	return fmt.Sprintf("p%d%s%s", r.Partition, recordMark, b)
}

func recordError(err error) *recordedError {
	if err == nil {
		return nil
	}
	out := &recordedError{Text: err.Error()}
	all := sentinels()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if errors.Is(err, all[name]) {
			out.Is = append(out.Is, name)
		}
	}
	if record.Unreadable(err) && len(out.Is) == 0 {
		out.Is = append(out.Is, "corrupt")
	}
	return out
}

func (e *recordedError) error() error {
	if e == nil {
		return nil
	}
	all := sentinels()
	err := errors.New(e.Text)
	for _, name := range e.Is {
		err = fmt.Errorf("%w (%w)", err, all[name])
	}
	return err
}

func encodeAll(events []history.Event) [][]byte {
	out := make([][]byte, 0, len(events))
	for _, ev := range events {
		b, err := eventcodec.Encode(ev)
		if err != nil {
			return nil // such a recording cannot be replayed
		}
		out = append(out, b)
	}
	return out
}

// Player replays recordings.
type Player struct {
	Programs *author.Registry
	Messages int // number of replayed messages

	tenures map[string]*tenure // by partition
}

// tenure is a tenure that is being replayed.
type tenure struct {
	owner   *core.Owner
	folds   map[string]*fold.State // states of resident code, by instance
	effects []string               // replayed effects that have not been found in the trace yet
	last    string                 // last line of a message
}

// Play replays all tenures of a trace. It returns an error for the first message whose effects differ from those in the trace.
func (p *Player) Play(trace string) error {
	p.tenures = make(map[string]*tenure)
	for line := range strings.Lines(trace) {
		line = strings.TrimSuffix(line, "\n")
		var err error
		partition, rest, _ := strings.Cut(line, " ")
		t := p.tenures[partition]
		switch data, recorded := strings.CutPrefix(rest, recordMark[1:]); {
		case recorded:
			err = p.message(partition, t, []byte(data))
		case strings.HasPrefix(rest, "  ") && t != nil:
			err = t.effect(strings.TrimSpace(rest))
		case t != nil:
			t.last = rest
		}
		if err != nil {
			return fmt.Errorf("partition %s: %w", partition, err)
		}
	}
	return nil
}

// effect compares an effect of the trace with the next replayed effect.
func (t *tenure) effect(want string) error {
	if len(t.effects) == 0 || t.effects[0] != want {
		return fmt.Errorf("after %q the trace has the effect %q, and the replay has %q", t.last, want, t.effects)
	}
	t.effects = t.effects[1:]
	return nil
}

// message replays one line.
func (p *Player) message(partition string, t *tenure, data []byte) error {
	r := &recording{}
	raw := struct {
		Message struct {
			Kind core.MessageKind
			Body json.RawMessage
		}
	}{}
	if err := errors.Join(json.Unmarshal(data, r), json.Unmarshal(data, &raw)); err != nil { //nolint:musttag // only the build that wrote it reads it
		return err
	}
	if r.Begin != nil {
		r.Config.Programs = p.Programs
		p.tenures[partition] = &tenure{owner: core.New(*r.Config, *r.Begin, r.Now), folds: make(map[string]*fold.State)}
		return nil
	}
	if t == nil {
		return errors.New("the recording lacks the beginning of the tenure")
	}
	if len(t.effects) > 0 {
		return fmt.Errorf("after %q the replay has the effects %q, and the trace has none", t.last, t.effects)
	}
	m := r.Message
	if err := r.complete(m, raw.Message.Body); err != nil {
		return err
	}
	if err := t.turned(m); err != nil {
		return err
	}
	p.Messages++
	for _, e := range t.owner.Step(r.Now, m) {
		if err := t.note(&e); err != nil {
			return err
		}
		t.effects = append(t.effects, e.String())
	}
	return nil
}

// complete sets the fields of the message that are recorded separately.
func (r *recording) complete(m *core.Message, body json.RawMessage) (err error) {
	m.Err, m.Body = r.Err.error(), nil
	if l := r.Loaded; l != nil {
		out := record.Loaded{Record: l.Record, Unread: l.Unread}
		var bad error
		out.Events, err = core.DecodeEvents(1, l.Events)
		out.Previous, bad = core.DecodeEvents(1, l.Previous)
		m.Body = out
		return errors.Join(err, bad)
	}
	m.Body, err = m.Kind.DecodeBody(body)
	if d := m.Decided; d != nil && err == nil {
		d.Events, err = core.DecodeEvents(r.Turn.First, d.Encoded)
		if err == nil {
			d.Overdue, err = core.DecodeEvents(0, r.Turn.Overdue)
		}
		for _, to := range r.Turn.Replies {
			d.Replies = append(d.Replies, message.OutInput{Instance: to.Instance, Kind: message.KindDone, Done: to.Done})
		}
		if r.Turn.Err != "" {
			d.Err = errors.New(r.Turn.Err)
		}
	}
	return err
}

// turned adds the state of its code, after the turn, to the answer of a turn.
func (t *tenure) turned(m *core.Message) error {
	if m.Decided == nil || m.Decided.Forbidden {
		return nil
	}
	m.Decided.Fold = t.folds[m.ID]
	for _, ev := range m.Decided.Events {
		if err := m.Decided.Fold.Apply(ev); err != nil {
			return err
		}
	}
	return nil
}

// note tracks the states of resident code.
func (t *tenure) note(e *core.Effect) (err error) {
	switch e.Kind {
	case core.RunTurn:
		if !e.Given.Resident {
			t.folds[e.ID], err = core.FoldOf(e.Given.Events)
		}
	case core.EvictCode:
		delete(t.folds, e.ID)
	default:
	}
	return err
}
