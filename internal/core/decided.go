package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Given is what the code of an instance is given for a turn.
type Given struct {
	Identity history.Identity
	Source
	Parent *history.Parent // of an instance that has not begun
	Seal   string          // of the elements that the turn makes

	Resident bool            // its code is in memory
	Events   []history.Event // otherwise: its history
	Inputs   []Unread
	Local    []history.Event // inputs that no inbox has
	Overdue  []history.Event // failures that time has decided

	Now    int64 // Unix ms
	Until  int64 // time has passed up to here, and every input that was accepted before is known
	Part   bool  // the inbox may have more than memory has
	More   bool  // it has inputs behind those of the turn, for sure
	Behind bool  // the owner had not caught up when the turn began
}

// Decided is what a turn leads to.
type Decided struct {
	Made
	Taken
	Late    []message.Reported // completions of activities that had been cancelled
	Replies []message.OutInput // to the parents of starts that found the instance there
	Front   [][]byte           // what the next execution begins with
	Status  *StatusChange      // nil: it has not been set
	Unread  []string           // names of the events that the code has received and not read
	Answers []AnsweredUpdate
	// Attributes is the text of history.Attributes behind the turn; empty: its code has not run, or the instance has had none.
	Attributes string

	Heavy     bool   // its code has large payloads, and does not stay in memory
	Early     bool   // its code polls, and the owner has not caught up: it is to be decided again
	Forbidden bool   // an ancestor was cancelled before it began, and its code has not run
	Diverged  bool   // Err is a divergence
	Missing   string // why no process has decided it: none has the code, or none has answered; nothing else is set
	Err       error
}

// Made is what a turn adds to the history.
type Made struct {
	Fold      *history.State // the state behind it
	Events    []history.Event
	Encoded   [][]byte
	Size      int               // of what is encoded
	Cancelled map[uint64]string // the effects of the activities that the turn cancels: a hint must name them
	// Settled has what the events of the turn end (schedules of activities and children), for the spans of a sampled instance; nil for others.
	Settled map[uint64]history.Event `json:"-"`
	Firings *replay.Firings          `json:"-"` // of a schedule, for its metrics; nil: none
}

// Taken is what a turn has taken of what it was given.
type Taken struct {
	Pop     []string
	Dropped int
	Overdue []history.Event // failures that wait on
	Due     int64           // the latest time that the turn has decided by, behind all of the inbox; 0: none
}

// StatusChange is a custom status that a turn has set, so often.
type StatusChange struct {
	Payload history.Payload
	Sets    uint64
}

// Record adds events to what the turn has decided, and to its state. It reports false if that failed.
func (t *Decided) Record(events []history.Event) bool {
	for _, e := range events {
		if !t.RecordEncoded(e, nil) {
			return false
		}
	}
	return true
}

// RecordEncoded is Record for one event with its encoding; nil: it is encoded here.
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
		if b, err = history.Encode(e); err != nil {
			t.Err = err
			return false
		}
	}
	t.Events = append(t.Events, e)
	t.Encoded = append(t.Encoded, b)
	t.Size += len(b)
	return true
}

// noteCancelled keeps the effect of an activity that is about to be forgotten.
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

// noteSettled keeps the schedule that an event ends, if the instance is sampled.
func (t *Decided) noteSettled(e history.Event) {
	if s := t.Fold.Started; s == nil || s.Headers == "" {
		return
	}
	id, ok := history.Settles(e)
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

// FoldOf returns the state of the code of an instance that has come to the end of these events.
func FoldOf(events []history.Event) (*history.State, error) {
	s := &history.State{}
	for _, ev := range events {
		if err := s.Apply(ev); err != nil {
			return s, err
		}
	}
	s.TakeReleased() // what the turns before have released and sent is not that of the next one
	s.TrimAcked(s.Len)
	return s, nil
}
