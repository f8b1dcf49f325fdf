package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Given is the input of a turn.
type Given struct {
	Identity effectid.Identity
	Source
	Parent *history.Parent // for the first turn of an instance
	Seal   string          // suffix of the ids of the inbox elements that the turn makes

	Resident bool            // the code is in memory
	Events   []history.Event // the history to replay, unless resident
	Inputs   []Unread
	Local    []history.Event // inputs that are in no inbox
	Overdue  []history.Event // failures decided by time

	Now        int64 // Unix ms
	Until      int64 // Unix ms; time may decide up to here: every input accepted before is known
	Part       bool  // the inbox may contain more than the owner has in memory
	More       bool  // the inbox certainly contains inputs after those of the turn
	CatchingUp bool  // when the turn began, the owner had not ingested all inputs accepted before its tenure
}

// Decided is the result of a turn.
type Decided struct {
	Additions
	Consumed
	Late    []message.Late     // completions of activities that had been cancelled
	Replies []message.OutInput // to the parents of duplicate starts
	Front   [][]byte           // elements of the inbox with which the next execution begins
	Status  *StatusChange      // nil: the custom status was not set
	Unread  []string           // names of the events that the code has received and not read
	Answers []AnsweredUpdate
	// Attributes is the encoding of attribute.Set after the turn; empty: the code has not run, or the instance never had any.
	Attributes string

	Heavy     bool   // the code holds large payloads, and does not stay in memory
	Early     bool   // the code polls, and the owner has not caught up: the turn must be decided again
	Forbidden bool   // an ancestor was cancelled before the instance began, and the code has not run
	Diverged  bool   // Err is a divergence
	Missing   string // why no process has decided the turn: none has the code, or none has answered; nothing else is set
	Err       error
}

// Additions is what a turn adds to the history.
type Additions struct {
	Fold      *fold.State // the state after the turn
	Events    []history.Event
	Encoded   [][]byte
	Size      int               // bytes of Encoded and of the answers to updates
	Cancelled map[uint64]string // effect ids of the activities that the turn cancels, for hints
	// Settled holds the schedules of the activities and children that the turn ends, for the spans of a sampled instance; nil for others.
	Settled map[uint64]history.Event `json:"-"`
	Firings *replay.Firings          `json:"-"` // firings of a schedule, for its metrics; nil: none
}

// Consumed is the part of its input that a turn has consumed.
type Consumed struct {
	Pop     []string        // ids of the consumed inputs
	Dropped int             // how many of them had no effect
	Overdue []history.Event // the failures that still wait
	Due     int64           // latest time by which the turn has decided after the whole inbox, Unix ms; 0: none
}

// StatusChange is a custom status that a turn has set, and how often it has set it.
type StatusChange struct {
	Payload history.Payload
	Sets    uint64
}

// Record adds events to the turn and to its state. If that fails it sets Err and returns false.
func (t *Decided) Record(events []history.Event) bool {
	for _, e := range events {
		if !t.RecordEncoded(e, nil) {
			return false
		}
	}
	return true
}

// RecordEncoded is Record for one event with its encoding; nil means that it is encoded here.
func (t *Decided) RecordEncoded(e history.Event, b []byte) bool {
	t.noteCancelled(e)
	t.noteSettled(e)
	t.noteAnswered(e)
	if err := t.Fold.Apply(e); err != nil {
		t.Err = fmt.Errorf("the turn breaks its history: %w", err)
		return false
	}
	if b == nil {
		var err error
		if b, err = eventcodec.Encode(e); err != nil {
			t.Err = err
			return false
		}
	}
	t.Events = append(t.Events, e)
	t.Encoded = append(t.Encoded, b)
	t.Size += len(b)
	return true
}

// noteCancelled keeps the effect id of a cancelled activity before the state drops it.
func (t *Decided) noteCancelled(e history.Event) {
	c, ok := e.(*history.ActivityCancelRequested)
	if !ok {
		return
	}
	if s := t.Fold.Activity(c.Scheduled); s != nil {
		if t.Cancelled == nil {
			t.Cancelled = make(map[uint64]string)
		}
		t.Cancelled[c.Scheduled] = s.Effect
	}
}

// noteSettled keeps the schedule of the activity or child that an event ends, if the instance is sampled.
func (t *Decided) noteSettled(e history.Event) {
	if s := t.Fold.Started; s == nil || s.Headers == "" {
		return
	}
	id, ok := fold.Settles(e)
	if !ok {
		return
	}
	if _, _, sampled := t.Fold.Started.Headers.Trace(); !sampled {
		return
	}
	if t.Settled == nil {
		t.Settled = make(map[uint64]history.Event)
	}
	if s := t.Fold.Activity(id); s != nil {
		t.Settled[id] = s
	} else if c := t.Fold.Child(id); c != nil {
		t.Settled[id] = c
	}
}

// FoldOf returns the state after these events, without the tickets released and the messages sent by the turns so far.
func FoldOf(events []history.Event) (*fold.State, error) {
	s, err := foldEvents(events)
	if err == nil {
		s.TakeReleased()
		s.TrimAcked(s.Len)
	}
	return s, err
}

// foldEvents returns the state after these events.
func foldEvents(events []history.Event) (*fold.State, error) {
	s := &fold.State{}
	for _, ev := range events {
		if err := s.Apply(ev); err != nil {
			return s, err
		}
	}
	return s, nil
}
