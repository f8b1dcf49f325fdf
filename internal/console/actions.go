package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
)

// confirmData is the page in front of a change that cannot be taken back.
type confirmData struct {
	Title, Section string
	Effects        []string
	Fields         []field
	Command        string // of the command line
	Button, Back   string
	Action         string // path that the form is sent to; empty: that of the page
}

// field is a field of a form.
type field struct {
	Name, Label, Value string
	Hidden, Check      bool
}

func confirmation(d confirmData) view {
	return view{template: "confirm", title: d.Title, section: d.Section, data: d}
}

func instancePath(id string) string { return "/instances/" + url.PathEscape(id) }

// sendData is the form of an event.
type sendData struct {
	Instance, Name, Payload, Problem string
	Names                            []string // of events that the instance has received
}

func sendForm(q *request) (view, error) {
	d := sendData{Instance: q.PathValue("id"), Name: q.FormValue("name")}
	return view{template: "send", title: "Send an event to " + d.Instance, section: "instances", data: d}, nil
}

// jsonField reads a field that is JSON or empty.
func (q *request) jsonField(name string) (json.RawMessage, error) {
	text := strings.TrimSpace(q.PostFormValue(name))
	if text == "" {
		return nil, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, &apiError{Status: http.StatusBadRequest, Detail: `The ` + name + ` is not JSON. A text is written with quotes: "approved".`}
	}
	return json.RawMessage(text), nil
}

func sendEvent(q *request) (view, error) {
	d := sendData{Instance: q.PathValue("id"), Name: strings.TrimSpace(q.PostFormValue("name")), Payload: q.PostFormValue("data")}
	data, err := q.jsonField("data")
	events := q.events(d.Instance)
	if err == nil {
		var body any
		if data != nil {
			body = data
		}
		err = q.call(http.MethodPost, instancePath(d.Instance)+"/events/"+url.PathEscape(d.Name), nil, body, nil)
	}
	if err == nil {
		q.settle(d.Instance, events)
		return view{redirect: instancePath(d.Instance)}, nil
	}
	e := problemOf(err)
	if e.Status >= http.StatusInternalServerError {
		return view{}, err
	}
	d.Problem = e.Detail
	return view{template: "send", title: "Send an event to " + d.Instance, section: "instances", status: e.Status, data: d}, nil
}

func cancelForm(q *request) (view, error) {
	id := q.PathValue("id")
	d, err := q.client.Describe(q.Context(), id)
	if err != nil {
		return view{}, err
	}
	effects := []string{"The instance is asked to end: its code sees the cancellation and may clean up."}
	if n := len(d.Activities); n > 0 {
		effects = append(effects, "Outstanding activities lose their leases at once; workers are notified within milliseconds.")
	}
	if n := len(d.Children); n > 0 {
		effects = append(effects, "Outstanding children are cancelled, too.")
	}
	effects = append(effects, "A cancellation cannot be taken back.")
	return confirmation(confirmData{
		Section: "instances", Title: "Cancel " + id, Effects: effects, Back: instancePath(id), Button: "Cancel the instance",
		Fields: []field{{Name: "reason", Label: "Reason (recorded in the history)"}}, Command: "pawl cancel " + shellQuote(id) + " --reason '…'",
	}), nil
}

func cancelInstance(q *request) (view, error) {
	id := q.PathValue("id")
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{q.PostFormValue("reason")}
	events := q.events(id)
	if err := q.call(http.MethodPost, instancePath(id)+"/cancel", nil, body, nil); err != nil {
		return view{}, err
	}
	q.settle(id, events)
	return view{redirect: instancePath(id)}, nil
}

func purgeForm(q *request) (view, error) {
	id := q.PathValue("id")
	d, err := q.client.Describe(q.Context(), id)
	if err != nil {
		return view{}, err
	}
	c := confirmData{
		Section: "instances", Title: "Purge " + id, Back: instancePath(id), Button: "Purge the instance", Command: "pawl purge " + shellQuote(id),
		Effects: []string{"The instance is removed with its whole history, result and status. It cannot be restored.", "The id is free again."},
		Fields:  []field{{Name: "reason", Label: "Reason"}},
	}
	if d.Ended.IsZero() {
		c.Effects = append(c.Effects, "It is running: it is purged only by force. Its activities and children are cancelled, and its code cannot clean up.")
		c.Fields = append(c.Fields, field{Name: "force", Label: "Purge although it is running", Check: true})
		c.Command += " --force"
	}
	return confirmation(c), nil
}

func purgeInstance(q *request) (view, error) {
	query := url.Values{}
	if reason := q.PostFormValue("reason"); reason != "" {
		query.Set("reason", reason)
	}
	if q.PostFormValue("force") != "" {
		query.Set("force", "true")
	}
	return view{redirect: "/instances"}, q.call(http.MethodDelete, instancePath(q.PathValue("id")), query, nil, nil)
}

// startData is the form of a start.
type startData struct {
	Orchestration, ID, Version, Input, Problem string
	Known                                      []string // orchestrations
}

// orchestrations are those that the fleet has registered.
func (q *request) orchestrations() []string {
	known, _ := q.client.Orchestrations(q.Context()) // the form works without them
	return known
}

func startForm(q *request) (view, error) {
	d := startData{Orchestration: q.FormValue("orchestration"), Known: q.orchestrations()}
	return view{template: "start", title: "Start an instance", section: "start", data: d}, nil
}

func startInstance(q *request) (view, error) {
	field := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	d := startData{Orchestration: field("orchestration"), ID: field("id"), Version: field("version"), Input: q.PostFormValue("input")}
	input, err := q.jsonField("input")
	var a api.Accepted
	if err == nil {
		err = q.call(http.MethodPost, "/instances", nil, api.Start{Orchestration: d.Orchestration, ID: d.ID, Version: d.Version, Input: input}, &a)
	}
	if err == nil {
		q.settle(a.Instance, 0)
		return view{redirect: instancePath(a.Instance)}, nil
	}
	e := problemOf(err)
	if e.Status >= http.StatusInternalServerError {
		return view{}, err
	}
	d.Problem, d.Known = e.Detail, q.orchestrations()
	return view{template: "start", title: "Start an instance", section: "start", status: e.Status, data: d}, nil
}
