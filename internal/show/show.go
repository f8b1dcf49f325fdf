// Package show formats the events of a history for the command line, the API and the test kit, as a line of text or a JSON object per event.
package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Kind returns the name of the type of an event.
func Kind(e history.Event) string { return reflect.TypeOf(e).Elem().Name() }

// Summary describes an event on one line, which may be empty.
func Summary(e history.Event) string {
	switch e := e.(type) {
	case *history.Started:
		return started(e)
	case *history.EventReceived:
		return by(called(e.Name, e.Payload), e.By, "")
	case *history.CancelRequested:
		return cancelRequested(e)
	case *history.ActivityScheduled:
		attempt := ""
		if e.Attempt > 1 {
			attempt = fmt.Sprintf("attempt %d", e.Attempt)
		}
		return called(noted(e.Name, attempt, waits(e.Limit)), e.Payload)
	case *history.ActivityCompleted:
		return strings.TrimSpace(ended(e.Scheduled, e.Worker, e.Claims) + " " + string(Payload(e.Result)))
	case *history.ActivityFailed:
		return ended(e.Scheduled, e.Worker, e.Claims) + " " + e.Failure.Message
	case *history.ActivityCancelRequested:
		return by(fmt.Sprintf("of %d: %s", e.Scheduled, e.Reason), e.By, e.Text)
	case *history.TimerScheduled:
		at := history.Head{At: e.FireAt}
		text := "for " + at.Time().Format("2006-01-02 15:04:05.000") + " UTC"
		if e.RetainsSlotOf != 0 {
			text += fmt.Sprintf(", keeping the slot of %d", e.RetainsSlotOf)
		}
		if e.AttemptTimeoutOf != 0 {
			text += fmt.Sprintf(", limits %d", e.AttemptTimeoutOf)
		}
		return text
	case *history.TimerFired:
		return fmt.Sprintf("of %d", e.Timer)
	case *history.TimerCancelled:
		return fmt.Sprintf("of %d", e.Timer)
	case *history.SideEffectRecorded:
		if e.Failure != nil {
			return "failed: " + e.Failure.Message
		}
		return string(Payload(e.Result))
	case *history.Completed:
		return string(Payload(e.Result))
	case *history.Failed:
		return e.Failure.Message
	case *history.Cancelled:
		if e.Failure.Code == history.CodeCancelled { // the message contains the requester and the reason
			return e.Failure.Message
		}
		return by(e.Failure.Message, e.By, e.Text)
	default:
		return message(e)
	}
}

func called(name string, p history.Payload) string {
	return strings.TrimSpace(name + " " + string(Payload(p)))
}

func ended(scheduled uint64, worker string, claims uint32) string {
	s := fmt.Sprintf("of %d", scheduled)
	if worker != "" {
		s += " on " + worker
	}
	if claims > 1 {
		s += fmt.Sprintf(" (claim %d)", claims)
	}
	return s
}

func by(s, who, text string) string {
	if who != "" {
		s += " by " + who
	}
	if text != "" {
		s += ": " + text
	}
	return strings.TrimSpace(s)
}

// Payload returns a payload as JSON. JSON is returned unchanged, or as a string if it is invalid. A sealed payload is described in a string, and
// other content types are encoded in base64.
func Payload(p history.Payload) json.RawMessage {
	if len(p.Data) == 0 {
		return nil
	}
	if sealed := sealing.Describe(p); sealed != "" {
		b, _ := json.Marshal(sealed) //nolint:errchkjson // strings always encode
		return b
	}
	if p.Type == history.TypeJSON || strings.HasSuffix(p.Type, "+json") {
		if json.Valid(p.Data) {
			return p.Data
		}
		b, _ := json.Marshal(string(p.Data)) //nolint:errchkjson // strings always encode
		return b
	}
	b, _ := json.Marshal(p.Data) //nolint:errchkjson // bytes always encode
	return b
}

// Failure returns a failure whose data is formatted as Payload does.
func Failure(f history.Failure) any {
	return struct {
		history.Failure
		Data json.RawMessage `json:"data,omitempty"`
	}{f, Payload(f.Data)}
}

// Line is an event of an exported history. Fields are for human readers. Raw is the event as eventcodec.Encode writes it, and Read
// reads only Raw, so that nothing is lost. Read ignores unknown fields.
type Line struct {
	Instance string         `json:"instance"`
	ID       uint64         `json:"id"`
	At       string         `json:"at"` // RFC 3339, UTC, milliseconds
	Kind     string         `json:"kind"`
	Fields   map[string]any `json:"fields"`
	Raw      []byte         `json:"raw"`
}

// JSON returns an event of an instance as a line of an exported history.
func JSON(instance string, e history.Event) (Line, error) {
	raw, err := eventcodec.Encode(e)
	if err != nil {
		return Line{}, err
	}
	fields := map[string]any{}
	for f, v := range reflect.ValueOf(e).Elem().Fields() {
		if f.Name == "Head" || f.Name == "RetainsSlotOf" && v.IsZero() {
			continue
		}
		if value, there := field(v); there {
			fields[strings.ToLower(f.Name[:1])+f.Name[1:]] = value
		}
	}
	at := e.Meta().Time().Format("2006-01-02T15:04:05.000Z")
	return Line{Instance: instance, ID: e.Meta().ID, At: at, Kind: Kind(e), Fields: fields, Raw: raw}, nil
}

// field returns the value of a field as an exported history contains it, and whether it contains it: a nil failure, parent, cancellation,
// start or limit, and a zero reason, are omitted.
func field(v reflect.Value) (any, bool) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	switch x := v.Interface().(type) {
	case history.Payload:
		return Payload(x), true
	case history.Failure:
		return Failure(x), true
	case *history.Failure:
		return Failure(*x), true
	case *history.Parent:
		return parent(*x), true
	case *history.CancelNote:
		return cancelNote(*x), true
	case *history.SentStart:
		return sentStart{x.Name, x.Version, Payload(x.Payload)}, true
	case *history.Limit:
		return limit{x.Name, x.Ticket, x.Waiting, x.Retain, x.HeldByAncestor, declared(x.Declared)}, true
	case cancel.Reason:
		return x, x != 0
	default:
		return x, true
	}
}

// parent is a history.Parent with the JSON names of exported histories.
type parent struct {
	Instance      string           `json:"instance"`
	Origin        history.Position `json:"origin"`
	Execution     uint64           `json:"execution"`
	Event         uint64           `json:"event"`
	Effect        string           `json:"effect"`
	HeldLimits    string           `json:"heldLimits,omitempty"`
	Depth         uint64           `json:"depth,omitempty"`
	AncestorMarks string           `json:"ancestorMarks,omitempty"`
}

// cancelNote is a history.CancelNote with the JSON names of exported histories.
type cancelNote struct {
	At     int64         `json:"at"`
	Reason cancel.Reason `json:"reason,omitzero"`
	By     string        `json:"by,omitempty"`
	Text   string        `json:"text,omitempty"`
}

// sentStart is a history.SentStart with the JSON names of exported histories.
type sentStart struct {
	Name    string          `json:"name"`
	Version string          `json:"version,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// limit is a history.Limit with the JSON names of exported histories.
type limit struct {
	Name           string   `json:"name"`
	Ticket         string   `json:"ticket"`
	Waiting        bool     `json:"waiting"`
	Retain         bool     `json:"retain,omitempty"`
	HeldByAncestor string   `json:"heldByAncestor,omitempty"`
	Declared       declared `json:"declared,omitzero"`
}

// declared is a history.Declared with the JSON names of exported histories.
type declared struct {
	Action      *history.Policy `json:"action,omitempty"`
	Group       string          `json:"group,omitempty"`
	GroupPolicy *history.Policy `json:"groupPolicy,omitempty"`
}

// ExportVersion is the version of the format of exports that this build writes, and the newest that it reads.
const ExportVersion = 1

// ReadExport reads the histories of an instance, either from an export (pawl export), which contains all kept executions in order, or from
// lines that JSON returned (pawl history --json), which contain one execution.
func ReadExport(b []byte) (instance string, executions [][]history.Event, err error) {
	var export struct {
		Version    int `json:"pawl_export"`
		Executions []struct {
			Events []Line `json:"events"`
		} `json:"executions"`
	}
	if json.Unmarshal(b, &export) != nil || export.Version == 0 {
		instance, events, err := Read(bytes.NewReader(b))
		return instance, [][]history.Event{events}, err
	}
	if export.Version > ExportVersion {
		return "", nil, fmt.Errorf("the export has version %d; this build reads versions up to %d: %w", export.Version, ExportVersion, eventcodec.ErrNewerVersion)
	}
	for _, x := range export.Executions {
		var lines bytes.Buffer
		enc := json.NewEncoder(&lines)
		for _, l := range x.Events {
			if err := enc.Encode(l); err != nil {
				return "", nil, err
			}
		}
		id, events, err := Read(&lines)
		if err != nil {
			return "", nil, err
		}
		instance, executions = id, append(executions, events)
	}
	return instance, executions, nil
}

// Read reads lines that JSON returned, of one execution of one instance. The error contains the number of the line. It is
// eventcodec.ErrNewerVersion for an event of a newer build.
func Read(r io.Reader) (instance string, events []history.Event, err error) {
	for dec := json.NewDecoder(r); ; {
		var l Line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return instance, events, nil
		} else if err != nil {
			return "", nil, fmt.Errorf("line %d of the exported history is not an event: %w", len(events)+1, err)
		}
		switch {
		case len(l.Raw) == 0:
			return "", nil, fmt.Errorf("line %d of the exported history has no field \"raw\"; export it again with this build's pawl history --json", len(events)+1)
		case l.ID != uint64(len(events))+1:
			return "", nil, fmt.Errorf("line %d of the exported history has event %d; a history is exported whole, from its first event on", len(events)+1, l.ID)
		case instance != "" && l.Instance != instance:
			return "", nil, fmt.Errorf("line %d of the exported history is of instance %.200s, and those before it are of %.200s", len(events)+1, l.Instance, instance)
		}
		e, err := eventcodec.Decode(l.ID, l.Raw)
		if err != nil {
			return "", nil, fmt.Errorf("exported history of instance %.200s: %w", l.Instance, err)
		}
		instance, events = l.Instance, append(events, e)
	}
}
