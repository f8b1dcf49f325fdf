package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

// verbs are the requests of operators by name, with the contents of their confirmation pages.
var verbs = map[string]confirmData{
	"pause": {
		Button: "Pause the instance", Mild: true,
		Effects: []string{"The instance takes no turn until it is resumed. Its inputs are kept.", "Running activities continue, and their results are kept."},
		Fields:  []field{stopField},
	},
	"resume": {Button: "Resume the instance", Mild: true, Effects: []string{"The instance takes turns again, beginning with the inputs that arrived in the meantime."}},
	"terminate": {
		Button:  "Terminate the instance",
		Effects: []string{"The instance ends at once: its code does not run again, and cannot clean up.", "Its activities and children are cancelled. Its history is kept."},
	},
	"retry": {
		Button: "Retry the instance", Mild: true,
		Fields: []field{fromStartField},
	},
	"rewind": {Button: "Rewind the instance", Fields: []field{{Name: "to", Kind: "hidden"}}},
}

var (
	stopField      = field{Name: "stop", Label: "Also cancel running activities; they run again after the pause", Kind: "check"}
	fromStartField = field{Name: "from_start", Label: "From the start, with the same input and the newest version", Kind: "check"}
)

// verb returns the instance and the request that the path names.
func (q *request) verb() (id, verb string, c confirmData, err error) {
	id, verb = q.PathValue("id"), q.PathValue("verb")
	c, known := verbs[verb]
	if !known {
		err = &apiError{Status: http.StatusNotFound, Detail: "There is no page " + q.URL.Path + "."}
	}
	return id, verb, c, err
}

// verbForm asks for a confirmation of a request. For a rewind and a retry it shows what would run again.
func verbForm(q *request) (view, error) {
	id, verb, c, err := q.verb()
	if err != nil {
		return view{}, err
	}
	c.Section, c.Title, c.Back = "instances", strings.ToUpper(verb[:1])+verb[1:]+" "+id, instancePath(id)
	c.Command = "pawl " + verb + " " + shellQuote(id) + " --reason '…'"
	c.Fields = append([]field{{Name: "reason", Label: "Reason (recorded in the history)"}}, c.Fields...)
	if verb != "retry" && verb != "rewind" {
		return confirmation(c), nil
	}
	to, err := eventID(q.FormValue("to"), verb)
	if err != nil {
		return view{}, err
	}
	plan, err := q.client.PlanRewind(q.Context(), id, to)
	if err != nil {
		return view{}, &apiError{Status: http.StatusConflict, Detail: strings.TrimPrefix(err.Error(), "client: "), Do: "Choose another event of the history."}
	}
	c.Effects = append(show.RewindPlan(id, plan), "Later events are no longer part of the instance. A new execution begins.")
	if verb == "rewind" {
		c.Fields[1].Value = strconv.FormatUint(to, 10)
		c.Command = "pawl rewind " + shellQuote(id) + " --to " + c.Fields[1].Value + " --reason '…'"
	}
	return confirmation(c), nil
}

// eventID parses the event to rewind to; a retry has none.
func eventID(text, verb string) (uint64, error) {
	if verb == "retry" {
		return 0, nil
	}
	to, err := strconv.ParseUint(text, 10, 64)
	if err != nil || to == 0 {
		return 0, &apiError{Status: http.StatusBadRequest, Detail: "An event is identified by its id in the history, from 1."}
	}
	return to, nil
}

// doVerb sends the request of an operator to the API.
func doVerb(q *request) (view, error) {
	id, verb, _, err := q.verb()
	if err != nil {
		return view{}, err
	}
	body := reasonBody(q.PostFormValue("reason"))
	for _, name := range []string{"stop", "from_start"} {
		if q.PostFormValue(name) != "" {
			body[name] = true
		}
	}
	if verb == "rewind" {
		if body["to"], err = eventID(q.PostFormValue("to"), verb); err != nil {
			return view{}, err
		}
	}
	return view{redirect: instancePath(id)}, q.post(id, verb, body)
}

// sendData is the form that sends an event, an update or a query, with the answer.
type sendData struct {
	Instance, Verb, Name, Payload, Problem, Answer string
}

// What names what the form sends.
func (d sendData) What() string {
	return map[string]string{"send": "an event", "update": "an update", "query": "a query"}[d.Verb]
}

func (d sendData) view(status int) view {
	return view{template: "send", title: "Send " + d.What() + " to " + d.Instance, section: "instances", status: status, data: d}
}

func sendForm(verb string) func(*request) (view, error) {
	return func(q *request) (view, error) {
		return sendData{Instance: q.PathValue("id"), Verb: verb, Name: q.FormValue("name")}.view(0), nil
	}
}

// send sends an event, an update or a query, and shows the answer or, for an event, its effect on the instance.
func send(verb string) func(*request) (view, error) {
	return func(q *request) (view, error) {
		d := sendData{Instance: q.PathValue("id"), Verb: verb, Name: strings.TrimSpace(q.PostFormValue("name")), Payload: q.PostFormValue("data")}
		data, err := q.jsonField("data")
		if err == nil {
			err = d.send(q, data)
		}
		if err != nil {
			e := problemOf(err)
			if e.Status >= http.StatusInternalServerError {
				return view{}, err
			}
			d.Problem = e.Detail
			return d.view(e.Status), nil
		}
		if verb == "send" {
			return view{redirect: instancePath(d.Instance)}, nil
		}
		return d.view(0), nil
	}
}

func (d *sendData) send(q *request, data json.RawMessage) error {
	path, name := instancePath(d.Instance), url.PathEscape(d.Name)
	switch d.Verb {
	case "send":
		events := q.events(d.Instance)
		err := q.call(http.MethodPost, path+"/events/"+name, nil, data, nil)
		if err == nil {
			q.awaitChange(d.Instance, events)
		}
		return err
	case "query":
		var a api.QueryAnswer
		err := q.call(http.MethodPost, path+"/queries/"+name, nil, data, &a)
		d.Answer = formatJSON(a.Value)
		return err
	default:
		var a api.UpdateAnswer
		err := q.call(http.MethodPost, path+"/updates/"+name, url.Values{"wait": {"5s"}}, data, &a)
		d.Answer, d.Problem = formatJSON(a.Result), a.Error
		if a.Status == "open" {
			d.Problem = "The instance has received the update but has not answered it yet."
		}
		return err
	}
}

// operations returns the requests of operators that are possible for an instance.
func operations(status client.Status, kind string) []link {
	switch {
	case kind == "batch" && status == client.Paused:
		return []link{{Name: "Resume…", URL: "resume"}}
	case kind == "batch" && !status.Ended():
		return []link{{Name: "Pause…", URL: "pause"}}
	case kind != "" && kind != "job":
		return nil
	case kind == "job" && (status == client.Running || status == client.Pending):
		return []link{{Name: "Pause…", URL: "pause"}, {Name: "Terminate…", URL: "terminate"}}
	case kind == "job" && status == client.Completed:
		return nil
	case kind == "job" && status.Ended():
		return []link{{Name: "Retry…", URL: "retry"}}
	}
	switch status {
	case client.Paused:
		return []link{{Name: "Resume…", URL: "resume"}, {Name: "Terminate…", URL: "terminate"}}
	case client.Running, client.Pending:
		return []link{{Name: "Update…", URL: "update"}, {Name: "Query…", URL: "query"}, {Name: "Pause…", URL: "pause"}, {Name: "Terminate…", URL: "terminate"}}
	case client.Failed, client.Cancelled:
		return []link{{Name: "Retry…", URL: "retry"}, {Name: "Query…", URL: "query"}}
	default:
		return []link{{Name: "Query…", URL: "query"}}
	}
}
