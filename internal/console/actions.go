package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// confirmData is the page that confirms a change.
type confirmData struct {
	Title, Section string
	Effects        []string
	Fields         []field
	Command        string // equivalent command line
	Button, Back   string
	Mild           bool   // the change can be undone
	Action         string // path that the form is sent to; empty: the page itself
	Problem        string // error in the entered values
}

// field is a field of a form.
type field struct {
	Name, Label, Value string
	Kind               string // hidden, check, number or json; empty: text
	Required           bool
}

func confirmation(d confirmData) view {
	return view{template: "confirm", title: d.Title, section: d.Section, data: d}
}

func instancePath(id string) string { return "/instances/" + url.PathEscape(id) }

// jsonField parses a field that contains JSON or is empty.
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

func cancelForm(q *request) (view, error) {
	id := q.PathValue("id")
	d, err := q.client.Describe(q.Context(), id)
	if err != nil {
		return view{}, err
	}
	effects := []string{"The instance receives a cancellation request. Its code can clean up before it ends."}
	if n := len(d.Activities); n > 0 {
		effects = append(effects, "Outstanding activities lose their leases at once; workers are notified within milliseconds.")
	}
	if n := len(d.Children); n > 0 {
		effects = append(effects, "Outstanding children are cancelled as well.")
	}
	effects = append(effects, "A cancellation cannot be undone.")
	return confirmation(confirmData{
		Section: "instances", Title: "Cancel " + id, Effects: effects, Back: instancePath(id), Button: "Cancel the instance",
		Fields: []field{{Name: "reason", Label: "Reason (recorded in the history)"}}, Command: "pawl cancel " + shellQuote(id) + " --reason '…'",
	}), nil
}

func cancelInstance(q *request) (view, error) {
	id := q.PathValue("id")
	events := q.events(id)
	if err := q.post(id, "cancel", reasonBody(q.PostFormValue("reason"))); err != nil {
		return view{}, err
	}
	q.awaitChange(id, events)
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
		Effects: []string{"The instance is removed with its whole history, result and status. It cannot be restored.", "The id can be used again."},
		Fields:  []field{{Name: "reason", Label: "Reason"}},
	}
	if d.Ended.IsZero() {
		c.Effects = append(c.Effects, "The instance has not ended, so it can only be purged by force: its activities and children are cancelled, and its code cannot clean up.")
		c.Fields = append(c.Fields, field{Name: "force", Label: "Purge it although it has not ended", Kind: "check", Required: true})
		c.Command += " --force"
	}
	return confirmation(c), nil
}

func purgeInstance(q *request) (view, error) {
	body := reasonBody(q.PostFormValue("reason"))
	body["force"] = q.PostFormValue("force") != ""
	return view{redirect: "/instances"}, q.remove(q.PathValue("id"), body)
}

// startData is the form that starts an instance.
type startData struct {
	Orchestration, ID, Version, Input, Problem string
	Attributes, StartAt, RunTimeout, IDReuse   string   // further settings
	Known                                      []string // registered orchestrations
	Like                                       []link   // instances whose inputs serve as examples
	Zero                                       bool     // the input is the zero value of its type
	Unknown                                    bool     // no orchestrator is known to have registered the orchestration
}

// Further reports whether any further settings are set.
func (d startData) Further() bool {
	return d.Attributes != "" || d.StartAt != "" || d.RunTimeout != "" || d.IDReuse != ""
}

// orchestrations returns the orchestrations that the fleet has registered.
func (q *request) orchestrations() []string {
	known, _ := q.client.Orchestrations(q.Context()) // the form works without them
	return known
}

func startForm(q *request) (view, error) {
	d := startData{Orchestration: q.FormValue("orchestration"), Known: q.orchestrations()}
	if like := q.FormValue("like"); like != "" { // prefill the form from another instance
		i, err := q.client.Describe(q.Context(), like)
		if err != nil {
			return view{}, err
		}
		d.Orchestration, d.Version = i.Orchestration, i.Version
		if i.Attributes != "" {
			d.Attributes = formatJSON(json.RawMessage(i.Attributes))
		}
		if entries, err := q.entries(like, 0, 0, 1); err == nil && len(entries) > 0 { // a delayed instance has no history yet
			if started, is := entries[0].Event.(*history.Started); is && len(started.Payload.Data) > 0 {
				d.Input = formatJSON(show.Payload(started.Payload))
			}
		}
	}
	d.examples(q)
	if d.Input == "" && d.Orchestration != "" {
		if example, err := q.client.InputExample(q.Context(), d.Orchestration); err == nil && string(example) != "null" && len(example) > 0 {
			d.Input, d.Zero = formatJSON(example), true
		}
	}
	return view{template: "start", title: "Start an instance", section: "start", data: d}, nil
}

// examples sets the latest instances of the orchestration, or without an orchestration the links to choose one.
func (d *startData) examples(q *request) {
	if d.Orchestration == "" {
		for _, name := range d.Known {
			if kindOf(name) == "" {
				d.Like = append(d.Like, link{Name: name, URL: "/start?" + url.Values{"orchestration": {name}}.Encode()})
			}
		}
		return
	}
	where := filter.Where{}.Is(filter.Orchestration, d.Orchestration).String()
	for row, err := range q.client.List(q.Context(), client.ListOptions{Where: where, Limit: maxExamples, MaxEmptyPages: 1}) {
		if err != nil || len(d.Like) == maxExamples { // the form works without them
			return
		}
		d.Like = append(d.Like, link{Name: row.Instance, URL: "/start?" + url.Values{"like": {row.Instance}}.Encode()})
	}
}

const maxExamples = 5

func startInstance(q *request) (view, error) {
	field := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	d := startData{
		Orchestration: field("orchestration"), ID: field("id"), Version: field("version"), Input: q.PostFormValue("input"),
		Attributes: q.PostFormValue("attributes"), StartAt: field("start_at"), RunTimeout: field("run_timeout"), IDReuse: field("id_reuse"),
	}
	input, err := q.jsonField("input")
	attributes, bad := q.jsonField("attributes")
	err = cmp.Or(err, bad)
	if known := q.orchestrations(); err == nil && len(known) > 0 && !slices.Contains(known, d.Orchestration) && q.PostFormValue("anyway") == "" {
		d.Unknown = true
		err = &apiError{Status: http.StatusBadRequest, Detail: "No orchestrator has registered " + strconv.Quote(d.Orchestration) + ". An instance of it is stalled until one does."}
	}
	var a api.Accepted
	if err == nil {
		err = q.call(http.MethodPost, "/instances", nil, api.Start{
			Orchestration: d.Orchestration, ID: d.ID, Version: d.Version, Input: input,
			Attributes: attributes, StartAt: d.StartAt, RunTimeout: d.RunTimeout, IDReuse: d.IDReuse,
		}, &a)
	}
	if err == nil {
		q.awaitChange(a.Instance, 0)
		return view{redirect: instancePath(a.Instance)}, nil
	}
	e := problemOf(err)
	if e.Status >= http.StatusInternalServerError {
		return view{}, err
	}
	d.Problem, d.Known = e.Detail, q.orchestrations()
	return view{template: "start", title: "Start an instance", section: "start", status: e.Status, data: d}, nil
}
