package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

type startCmd struct {
	Orchestration string        `arg:"" help:"Name of the orchestration."`
	ID            *string       `arg:"" optional:"" help:"Id of the instance. Default: a generated one."`
	Input         string        `placeholder:"JSON" help:"Input as JSON, @FILE, or - for standard input."`
	Event         string        `placeholder:"NAME=JSON" help:"Also send an event, in the same message, with JSON, @FILE, - or no data. An instance that runs already receives only the event."`
	After         time.Duration `placeholder:"DURATION" help:"Delay of the start. Until then, the instance is pending and can be cancelled."`
	At            time.Time     `placeholder:"TIME" help:"Time of the start, such as 2026-11-22T08:00:00Z."`
	IDReuse       string        `name:"id-reuse" enum:"ignore,reject,after-failure,terminate-existing" default:"ignore" help:"Effect if there is an instance with the id: ${enum}."`
	WaitStarted   bool          `name:"wait-started" help:"Wait until the start has taken effect: the instance is listed, and a delayed one is pending."`
	newInstance
	waiting
	connection `group:"Connection"`
}

// newInstance contains the flags for the instance that start and update start.
type newInstance struct {
	Attribute  []string      `short:"a" sep:"none" placeholder:"NAME=VALUE" help:"Attribute of the instance: true, false, an integer, a time such as 2026-11-22T08:00:00Z, or a text, in double quotes if it could be read as one of the others. Repeatable."`
	Version    string        `placeholder:"VERSION" help:"Version of the orchestration. Default: the newest one of its orchestrator."`
	RunTimeout time.Duration `name:"run-timeout" placeholder:"DURATION" help:"Fail the instance if it has not ended this long after its start."`
}

// options reads and checks the flags.
func (c newInstance) options() (opts []client.InstanceOption, err error) {
	if c.Version != "" {
		err = pawl.ValidateName(c.Version) // versions follow the rules of names
		opts = append(opts, client.Version(c.Version))
	}
	attributes, bad := attributesOf(c.Attribute)
	if len(attributes) > 0 {
		opts = append(opts, client.Attributes(attributes.String()))
	}
	if c.RunTimeout < 0 {
		bad = errors.Join(bad, fmt.Errorf("--run-timeout must not be negative (got %s)", c.RunTimeout))
	}
	if c.RunTimeout > 0 {
		opts = append(opts, client.RunTimeout(c.RunTimeout))
	}
	return opts, errors.Join(err, bad)
}

// AfterApply checks the settings.
func (c *startCmd) AfterApply() error {
	w := c.waiting
	var err error
	if c.WaitStarted && w.Wait {
		err = errors.New("--wait-started excludes --wait")
	}
	w.Wait = w.Wait || c.WaitStarted
	return errors.Join(err, w.AfterApply(), c.connection.AfterApply())
}

// Run starts an instance.
func (c *startCmd) Run(ctx context.Context, s streams) error {
	order, err := c.order()
	if err != nil {
		return err
	}
	return order.start(ctx, s, c.connection, c.waiting)
}

// order is a start to be sent.
type order struct {
	orchestration, id string
	input             history.Payload
	event             string // event that is sent with the start; empty: none
	data              history.Payload
	options           []client.StartOption
	contested         bool // --id-reuse decides about an existing instance
	waitStarted       bool // wait until the start has taken effect; always set with contested
}

// order reads and checks the arguments.
func (c *startCmd) order() (o order, err error) {
	name, data, _ := strings.Cut(c.Event, "=")
	if c.Input == "-" && data == "-" {
		return o, settings.Usage(errors.New("--input and --event cannot both be read from standard input"))
	}
	o = order{orchestration: c.Orchestration, id: idOr(c.ID, c.Orchestration), event: name}
	if o.input, err = input(c.Input); err != nil {
		return o, err
	}
	if o.data, err = input(data); err != nil {
		return o, err
	}
	bad := []error{pawl.ValidateName(o.orchestration), pawl.ValidateID(o.id)}
	if c.Event != "" {
		bad = append(bad, pawl.ValidateName(o.event))
	}
	options, err := c.options()
	for _, option := range options {
		o.options = append(o.options, option)
	}
	bad = append(bad, err)
	if c.After < 0 {
		bad = append(bad, fmt.Errorf("--after must not be negative (got %s)", c.After))
	}
	if c.After > 0 && !c.At.IsZero() {
		bad = append(bad, errors.New("--after excludes --at"))
	}
	if c.After > 0 {
		o.options = append(o.options, client.After(c.After))
	}
	if !c.At.IsZero() {
		o.options = append(o.options, client.StartAt(c.At))
	}
	reuse, err := client.ParseIDReuse(c.IDReuse)
	o.options, o.contested = append(o.options, reuse), reuse != client.Ignore
	o.waitStarted = c.WaitStarted || o.contested
	bad = append(bad, err)
	if err := errors.Join(bad...); err != nil {
		return o, settings.Usage(err)
	}
	return o, nil
}

// idOr returns the id of the command line, even if it is empty, or generates one if there is none.
func idOr(id *string, name string) string {
	if id != nil {
		return *id
	}
	return name + "-" + nuid.Next()
}

func (o order) send(ctx context.Context, cl *client.Client) (*client.RawInstance, error) {
	if o.event == "" {
		return cl.StartRaw(ctx, o.orchestration, o.id, o.input, o.options...)
	}
	return cl.SendOrStartRaw(ctx, o.orchestration, o.id, o.input, o.event, o.data, o.options...)
}

// start sends the start, reports what prevents the instance from running, and waits for its end with --wait.
func (o order) start(ctx context.Context, s streams, c connection, w waiting) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	run, err := o.send(ctx, cl)
	if err != nil {
		return err
	}
	if o.waitStarted {
		if err := w.within(ctx, s, cl, o.id, "begun", run.WaitStarted); err != nil {
			return err
		}
	}
	note := ""
	if !o.contested { // otherwise the instance is the one that was started
		if note, err = o.check(ctx, cl); err != nil {
			return err
		}
	}
	if note != "" && !w.Wait { // the wait reports it, too
		warn := s.note
		if w.JSON {
			warn = func(format string, args ...any) error { return s.warn(true, format, args...) }
		}
		if err := warn("%s is started and %s", o.id, diagnose.OneLine(note)); err != nil {
			return err
		}
	}
	switch {
	case w.Wait:
		return w.await(ctx, s, cl, run)
	case w.JSON:
		return writeJSON(s.out, api.Accepted{Instance: o.id, Accepted: true, Started: o.waitStarted})
	default:
		_, err = fmt.Fprintln(s.out, o.id)
		return err
	}
}
