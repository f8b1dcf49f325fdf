package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// describe shows one instance, a field a line, and what it has outstanding. kin tells of its children.
func describe(w io.Writer, d client.Description, kin kinship) error {
	f := &term.Fields{}
	f.Add("instance", d.Instance)
	if d.Orchestration != "" {
		f.Add("orchestration", d.Orchestration)
	}
	if d.Version != "" {
		f.Add("version", d.Version)
	}
	if d.Parent != "" {
		f.Add("parent", d.Parent)
	}
	f.Add("status", standing(d))
	if d.Execution > 1 {
		f.Add("execution", d.Execution)
	}
	if d.Created != 0 {
		f.Add("started", when(d.Created)+" UTC")
	}
	if d.Ended != 0 {
		f.Add("ended", when(d.Ended)+" UTC")
	}
	if d.Events > 0 {
		f.Add("events", d.Events)
	}
	if d.Inbox > 0 {
		f.Add("unread inputs", d.Inbox)
	}
	if len(d.Unread) > 0 {
		f.Add("unread events", history.UnreadText(d.Unread))
	}
	if d.Timers > 0 {
		f.Add("timers", fmt.Sprintf("%d, the next at %s UTC", d.Timers, when(d.NextTimer)))
	}
	if text := waitsFor(d); text != "" {
		f.Add("waits for", text)
	}
	for _, text := range waitsLines(d, time.Now().UnixMilli()) {
		f.Add("waits", text)
	}
	if d.Owes > 0 {
		f.Add("owes", fmt.Sprintf("%s not known to be sent", counted(int(d.Owes), "message"))) //nolint:gosec // a length
	}
	if d.Stuck != "" {
		f.Add("stuck", oneLine(d.Stuck))
	}
	if d.Custom != nil {
		f.Add("custom status", customText(*d.Custom))
	}
	if r := show.Payload(d.Result); r != nil {
		f.Add("result", short(string(r), shortField))
	}
	if d.Failure != nil {
		f.Add("failure", oneLine(d.Failure.Message))
	}
	if err := f.Write(w); err != nil {
		return err
	}
	if err := activityTable(w, d); err != nil {
		return err
	}
	return childTable(w, d.Children, kin)
}

// activityTable shows, under an empty line, what is outstanding; nothing if nothing is.
func activityTable(w io.Writer, d client.Description) error {
	if len(d.Outstanding) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports
	t := &term.Table{Header: []string{"ACTIVITY", "NAME", "QUEUE", "STATE", "FOR"}, Right: []int{0, 4}}
	for _, o := range d.Outstanding {
		state := "waits for a worker"
		if g, waits := placeOf(d.Waits, o.Activity); waits {
			state = fmt.Sprintf("waits at its gate, place %d of %d", g.Position, g.Length)
		} else if o.Worker != "" {
			state = "on " + o.Worker
		}
		if o.Claims > 1 {
			state += fmt.Sprintf(", claim %d", o.Claims)
		}
		t.Add(o.Activity, o.Name, o.Queue, state, since(o.Since, 0))
	}
	return t.Write(w)
}

func standing(d client.Description) string {
	switch {
	case d.Created == 0:
		return d.Status
	case d.Ended == 0:
		return d.Status + " for " + since(d.Created, 0)
	default:
		return d.Status + " after " + since(d.Created, d.Ended)
	}
}

// instanceJSON is a description for a program: times as text, payloads as JSON.
type instanceJSON struct {
	Instance      string            `json:"instance"`
	Orchestration string            `json:"orchestration,omitempty"`
	Version       string            `json:"version,omitempty"`
	Parent        string            `json:"parent,omitempty"`
	Status        string            `json:"status"`
	Execution     uint64            `json:"execution,omitempty"`
	Created       string            `json:"created,omitempty"`
	Updated       string            `json:"updated,omitempty"`
	Ended         string            `json:"ended,omitempty"`
	Events        uint64            `json:"events,omitempty"`
	Inbox         uint64            `json:"inbox"`
	Timers        uint64            `json:"timers,omitempty"`
	NextTimer     string            `json:"next_timer,omitempty"`
	Outstanding   []outstandingJSON `json:"outstanding,omitempty"`
	Children      []childJSON       `json:"children,omitempty"`
	Waits         []waitJSON        `json:"waits,omitempty"` // at gates
	Owes          uint64            `json:"owes,omitempty"`  // messages to other instances that are not yet known to be sent
	Stuck         string            `json:"stuck,omitempty"`
	Custom        *customJSON       `json:"custom,omitempty"`
	Result        json.RawMessage   `json:"result,omitempty"`
	Failure       any               `json:"failure,omitempty"`

	Unread []history.UnreadEvents `json:"unread,omitempty"` // at the end
}

type outstandingJSON struct {
	Activity  uint64 `json:"activity"`
	Name      string `json:"name"`
	Queue     string `json:"queue"`
	Worker    string `json:"worker,omitempty"` // empty: not claimed
	Claims    uint32 `json:"claims"`
	Scheduled string `json:"scheduled,omitempty"`
}

// waitJSON is a wait at a gate for a program.
type waitJSON struct {
	Event        uint64        `json:"event"` // of the activity's schedule; 1: the start of the instance
	Action       string        `json:"action"`
	Key          string        `json:"key,omitempty"`
	Position     uint64        `json:"position,omitempty"` // from 1; left out: it is let in this moment, or the gate does not know it
	QueueLength  uint64        `json:"queue_length"`
	ActiveCount  uint64        `json:"active_count"`
	Policy       client.Policy `json:"policy"`
	Since        string        `json:"since,omitempty"`
	LimitedUntil string        `json:"limited_until,omitempty"`
	Deadlocked   bool          `json:"deadlocked,omitempty"`
}

func describedJSON(d client.Description, kin kinship) instanceJSON {
	j := instanceJSON{
		Instance: d.Instance, Orchestration: d.Orchestration, Version: d.Version, Parent: d.Parent, Status: d.Status, Execution: d.Execution,
		Created: stamp(d.Created), Updated: stamp(d.Updated), Ended: stamp(d.Ended), Events: d.Events, Inbox: d.Inbox,
		Timers: d.Timers, NextTimer: stamp(d.NextTimer), Owes: d.Owes, Stuck: d.Stuck, Custom: asCustomJSON(d.Custom), Result: show.Payload(d.Result),
		Unread: d.Unread,
	}
	if d.Failure != nil {
		j.Failure = show.Failure(*d.Failure)
	}
	for _, o := range d.Outstanding {
		j.Outstanding = append(j.Outstanding, outstandingJSON{
			Activity: o.Activity, Name: o.Name, Queue: o.Queue, Worker: o.Worker, Claims: o.Claims, Scheduled: stamp(o.Since),
		})
	}
	for _, g := range d.Waits {
		j.Waits = append(j.Waits, waitJSON{
			Event: g.Event, Action: g.Action, Key: g.Key, Position: g.Position, QueueLength: g.Length, ActiveCount: g.Holding, Policy: g.Policy,
			Since: stamp(g.Since), LimitedUntil: stamp(g.LimitedUntil), Deadlocked: g.Deadlocked,
		})
	}
	for _, c := range d.Children {
		j.Children = append(j.Children, asChildJSON(c, kin))
	}
	return j
}
