package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
)

const maxCommands = 5 // maximum number of command lines shown for selected instances

// bulkOp is an operation that can be applied to many instances.
type bulkOp struct {
	verb    string       // first word of the title
	batch   client.Batch // the batch that applies it to all instances of a filter; no verb: only for selected instances
	role    access.Role
	effects []string
	mild    bool
	fields  []field
	command string // command line: before an id, or after "pawl batch"; empty: not shown
	change  func(q *request, id string, body map[string]any) error
}

// operated returns the bulk operation of an operator's request. By default its effects are those on the page of one
// instance.
func operated(verb string, effects []string, fields ...field) bulkOp {
	if effects == nil {
		effects = verbs[verb].Effects
	}
	return bulkOp{
		verb: strings.ToUpper(verb[:1]) + verb[1:], batch: client.Batch{Verb: client.BatchVerb(verb)}, role: access.Operator,
		effects: effects, mild: verbs[verb].Mild, fields: append([]field{{Name: "reason", Label: "Reason (recorded in each history)"}}, fields...), command: verb,
		change: func(q *request, id string, body map[string]any) error { return q.post(id, verb, body) },
	}
}

var bulkOps = map[string]bulkOp{
	"cancel": operated("cancel", []string{"Each instance receives a cancellation request; its outstanding activities and children are cancelled.", "A cancellation cannot be undone."}),
	"pause":  operated("pause", nil, stopField), "resume": operated("resume", nil), "terminate": operated("terminate", nil),
	"retry": operated("retry", []string{"Each failed or cancelled instance continues from before its failure. Completed work does not run again."}, fromStartField),
	"rewind": operated("rewind", []string{
		"Each instance continues from this event of its history. Later events are no longer part of the history, and their work runs again.",
		"Instances without this event are not changed.",
	}, field{Name: "to", Label: "Event id (the event and the rest of its turn are kept)", Kind: "number", Required: true}),
	"event": {
		verb: "Send an event to", batch: client.Batch{Verb: client.BatchEvent}, role: access.Operator, mild: true, command: "send NAME JSON",
		fields:  []field{{Name: "event", Label: "Name of the event", Required: true}, {Name: "data", Label: "Data (JSON, optional)", Kind: "json"}},
		effects: []string{"Each instance receives the event. If its code does not receive it, the event stays unread."},
		change: func(q *request, id string, body map[string]any) error {
			name, _ := body["event"].(string)
			return q.call(http.MethodPost, instancePath(id)+"/events/"+url.PathEscape(name), nil, body["data"], nil)
		},
	},
	"purge": {
		verb: "Purge", batch: client.Batch{Verb: client.BatchPurge}, role: access.Admin, fields: []field{{Name: "reason", Label: "Reason"}}, command: "purge",
		effects: []string{"The instances are removed with their histories and results. They cannot be restored.", "Instances that have not ended are not changed."},
		change:  (*request).remove,
	},
	"drop": {
		verb: "Drop", batch: client.Batch{Verb: client.BatchPurge, Force: true}, role: access.Admin, fields: []field{{Name: "reason", Label: "Reason"}}, command: "purge --force",
		effects: []string{"The instances are purged by force, with their inputs and histories: they cannot be restored.", "Activities and children that can be read are cancelled."},
		change: func(q *request, id string, body map[string]any) error {
			body["force"] = true
			return q.remove(id, body)
		},
	},
	"requeue": {
		verb: "Try again", role: access.Operator, mild: true, command: "pawl requeue",
		effects: []string{"Each stalled instance is retried now, instead of after a delay of up to a minute.", "An instance that still cannot proceed stalls again."},
		change:  func(q *request, id string, _ map[string]any) error { return q.post(id, "requeue", nil) },
	},
	"forget": {
		verb: "Remove the notes of", role: access.Operator, mild: true, command: "pawl refused --drop",
		effects: []string{"The notes of refused inputs are removed. Instances with these ids are not affected."},
		change: func(q *request, id string, _ map[string]any) error {
			return q.call(http.MethodDelete, "/refused/"+url.PathEscape(id), nil, nil, nil)
		},
	},
}

// reasonBody returns a request body with a reason, if there is one.
func reasonBody(reason string) map[string]any {
	body := map[string]any{}
	if reason = strings.TrimSpace(reason); reason != "" {
		body["reason"] = reason
	}
	return body
}

func (q *request) post(id, what string, body map[string]any) error {
	return q.call(http.MethodPost, instancePath(id)+"/"+what, nil, body, nil)
}

func (q *request) remove(id string, body map[string]any) error {
	query := url.Values{}
	for name, value := range body {
		query.Set(name, fmt.Sprint(value))
	}
	return q.call(http.MethodDelete, instancePath(id), query, nil, nil)
}

// bulk is a requested change of many instances: selected ones, or all that pass a filter.
type bulk struct {
	bulkOp

	op, where string
	all       bool // a batch changes all instances that pass the filter
	ids       []string
}

// selection reads the operation and the instances from the form.
func (q *request) selection() (b bulk, err error) {
	b.op, b.where, b.all = q.PostFormValue("op"), strings.TrimSpace(q.PostFormValue("where")), q.PostFormValue("all") != ""
	op, known := bulkOps[b.op]
	if !known || b.all && op.batch.Verb == "" {
		return b, &apiError{Status: http.StatusBadRequest, Detail: "Choose what to do, such as cancel or purge."}
	}
	b.bulkOp = op
	if q.user.Role < op.role {
		return b, &apiError{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s may not do this: it requires the role %s.", q.user.Name, op.role)}
	}
	if b.ids = q.PostForm["instance"]; len(b.ids) == 0 && !b.all {
		return b, &apiError{Status: http.StatusBadRequest, Detail: "No instance is selected.", Do: "select some in the list"}
	}
	if b.all {
		b.fields = append(slices.Clone(b.fields), field{Name: "rate", Label: "Maximum requests per second (optional)", Kind: "number"})
	}
	return b, nil
}

// formFields returns the fields of the form that have a value.
func (q *request) formFields(fields []field) (map[string]any, error) {
	body := map[string]any{}
	for _, f := range fields {
		text := strings.TrimSpace(q.PostFormValue(f.Name))
		if text == "" {
			continue
		}
		switch f.Kind {
		case "check":
			body[f.Name] = true
		case "number":
			n, err := strconv.ParseUint(text, 10, 53)
			if err != nil {
				return nil, &apiError{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s: %q is not a number.", f.Name, text)}
			}
			body[f.Name] = n
		case "json":
			data, err := q.jsonField(f.Name)
			if err != nil {
				return nil, err
			}
			body[f.Name] = data
		default:
			body[f.Name] = text
		}
	}
	return body, nil
}

// request adds the operation and the filter of a batch to body.
func (b *bulk) request(body map[string]any) map[string]any {
	body["verb"] = b.batch.Verb
	if b.batch.Force {
		body["force"] = true
	}
	if b.where == "" {
		body["all"] = true
	} else {
		body["where"] = b.where
	}
	return body
}

// bulkForm counts the affected instances and asks for a confirmation.
func bulkForm(q *request) (view, error) {
	b, err := q.selection()
	if err != nil {
		return view{}, err
	}
	return b.confirm(q, nil)
}

// confirm shows the confirmation page, with the problem in its fields, if any.
func (b *bulk) confirm(q *request, problem *apiError) (view, error) {
	c := confirmData{
		Section: "instances", Title: b.verb + " " + diagnose.Counted(len(b.ids), "instance"), Back: "/instances", Action: "/bulk/run", Effects: slices.Clone(b.effects), Mild: b.mild,
		Fields: []field{{Name: "op", Value: b.op, Kind: "hidden"}},
	}
	for _, f := range b.fields {
		f.Value = q.PostFormValue(f.Name)
		c.Fields = append(c.Fields, f)
	}
	if b.batch.Verb == "" {
		for _, id := range b.ids[:min(len(b.ids), maxCommands)] {
			c.Command += b.command + " " + shellQuote(id) + "\n"
		}
	}
	for _, id := range b.ids {
		c.Fields = append(c.Fields, field{Name: "instance", Value: id, Kind: "hidden"})
	}
	if b.all {
		if err := b.count(q, &c); err != nil {
			return view{}, err
		}
	}
	c.Button = c.Title
	v := confirmation(c)
	if problem != nil {
		c.Problem = problem.Detail
		v.data, v.status = c, problem.Status
	}
	return v, nil
}

// count adds the number of affected instances to the confirmation page of a batch.
func (b *bulk) count(q *request, c *confirmData) error {
	request := map[string]any{"dry_run": true}
	for _, f := range b.fields { // required fields do not change the count, and are entered later
		if f.Required {
			request[f.Name] = map[string]any{"to": 1, "event": "any"}[f.Name]
		}
	}
	var n api.BatchCount
	if err := q.call(http.MethodPost, "/batches", nil, b.request(request), &n); err != nil {
		return err
	}
	if n.Count == 0 {
		return &apiError{Status: http.StatusConflict, Detail: "No instance can be changed this way.", Do: "change the filter"}
	}
	c.Title = b.verb + " " + diagnose.Counted(int(n.Count), "instance") //nolint:gosec // a length
	if n.AtLeast {
		c.Title += " or more"
	}
	c.Command = "pawl batch " + b.command
	if b.where == "" {
		c.Command += " --all"
		c.Effects = append(c.Effects, "There is no filter: the batch changes all instances of the namespace that have a suitable status when it begins.")
	} else {
		c.Command += " --where " + shellQuote(b.where)
		c.Effects = append(c.Effects, "The batch changes the instances that pass the filter "+b.where+" and have a suitable status when it begins.")
	}
	c.Section, c.Back = "batches", listPath(b.where)
	c.Effects = append(c.Effects, "The batch can be paused and cancelled.")
	c.Fields = append(c.Fields, field{Name: "all", Value: "true", Kind: "hidden"}, field{Name: "where", Value: b.where, Kind: "hidden"})
	return nil
}

// runBulk starts a batch for a filter, or a job for selected instances. A job sends its requests to the API with the
// credentials of this request.
func (c *console) runBulk(q *request) (view, error) {
	b, err := q.selection()
	if err != nil {
		return view{}, err
	}
	body, err := q.formFields(b.fields)
	var a api.Accepted
	if err == nil && b.all {
		err = q.call(http.MethodPost, "/batches", nil, b.request(body), &a)
	}
	switch e, is := errors.AsType[*apiError](err); {
	case is && e.Status < http.StatusInternalServerError:
		return b.confirm(q, e)
	case err != nil:
		return view{}, err
	case b.all:
		q.awaitChange(a.Instance, 0)
		return view{redirect: instancePath(a.Instance)}, nil
	}
	one := c.jobs.start(b.verb+" "+diagnose.Counted(len(b.ids), "instance"), q.user.Name, b.ids, func(ctx context.Context, id string) error {
		each := *q
		each.Request = q.WithContext(ctx)
		err := b.change(&each, id, maps.Clone(body))
		if e, is := errors.AsType[*apiError](err); is && e.Status == http.StatusNotFound {
			return nil // already gone
		}
		return err
	})
	return view{redirect: "/bulk/" + one.ID}, nil
}
