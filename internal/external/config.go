package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// Activity configures one activity. Exec or HTTP is required, and not both.
type Activity struct {
	Exec Command `json:"exec,omitempty"` // program with its arguments; a string is split at spaces, and quotation marks group
	HTTP string  `json:"http,omitempty"` // URL

	Queue       string        `json:"queue,omitempty"`       // task queue; default: the name of the activity
	Concurrency int           `json:"concurrency,omitempty"` // slots of the queue on this worker, for all of its activities; default: that of the worker
	Grace       text.Duration `json:"grace,omitempty"`       // grace period after a cancellation; default: that of the worker
	Timeout     text.Duration `json:"timeout,omitempty"`     // of one attempt on the worker; default: none
	Retry       *Retry        `json:"retry,omitempty"`       // retries in place, on the worker; default: see the package comment

	Limit *history.Policy `json:"limit,omitempty"` // limit across the fleet; set by "pawl policy apply", ignored by workers

	// Programs only.
	Dir       string            `json:"dir,omitempty"`       // working directory; default: the worker's
	Env       map[string]string `json:"env,omitempty"`       // additional variables; $NAME is a variable of the worker
	Permanent []int             `json:"permanent,omitempty"` // exit codes that are final; default: 65

	// Endpoints only.
	Headers      map[string]string `json:"headers,omitempty"`       // additional headers; $NAME is a variable of the worker
	AllowPrivate bool              `json:"allow_private,omitempty"` // allow loopback, private and link-local addresses
}

// Retry repeats failed attempts on the worker.
type Retry struct {
	Attempts int           `json:"attempts,omitempty"` // maximum number, including the first; default 5
	Initial  text.Duration `json:"initial,omitempty"`  // backoff after the first failure, doubled after each further one; default 1 s
	Max      text.Duration `json:"max,omitempty"`      // maximum backoff, and maximum Retry-After; default 1 minute

	onRequest bool // retry only after a response with Retry-After
}

// Command is a program with its arguments. Its JSON is a list, or a string that is split.
type Command []string

// UnmarshalJSON decodes either form.
func (c *Command) UnmarshalJSON(b []byte) error {
	var line string
	if json.Unmarshal(b, &line) == nil {
		var err error
		*c, err = split(line)
		return err
	}
	return json.Unmarshal(b, (*[]string)(c))
}

// Config is a set of activities by name.
type Config struct {
	Activities map[string]Activity `json:"activities"`
}

// Read reads a YAML or JSON file:
//
//	activities:
//	  resize-image: {exec: [python3, resize.py], queue: images, concurrency: 2}
//	  charge:       {http: https://pay.example/charge, retry: {attempts: 5, initial: 1s, max: 1m}}
//
// Unknown members are an error.
func Read(file string) (Config, error) {
	var c Config
	err := ReadYAML(file, &c)
	return c, err
}

// ReadYAML decodes a YAML file into v by the rules of JSON. Unknown members are an error.
func ReadYAML(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var tree any
	if err := yaml.Unmarshal(b, &tree); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if b, err = json.Marshal(tree); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// AddExec adds a program in the form NAME=COMMAND.
func (c *Config) AddExec(arg string) error {
	name, line, ok := strings.Cut(arg, "=")
	command, err := split(line)
	if err != nil {
		return fmt.Errorf("%q: %w", arg, err)
	}
	if !ok || len(command) == 0 {
		return fmt.Errorf("%q: must be NAME=COMMAND, such as 'resize-image=python3 resize.py'", arg)
	}
	return c.add(name, Activity{Exec: command})
}

// AddHTTP adds an endpoint in the form NAME=URL.
func (c *Config) AddHTTP(arg string, allowPrivate bool) error {
	name, to, ok := strings.Cut(arg, "=")
	if !ok {
		return fmt.Errorf("%q: must be NAME=URL, such as 'charge=https://pay.example/charge'", arg)
	}
	return c.add(name, Activity{HTTP: to, AllowPrivate: allowPrivate})
}

func (c *Config) add(name string, a Activity) error {
	if _, dup := c.Activities[name]; dup {
		return fmt.Errorf("activity %q is configured twice", name)
	}
	if c.Activities == nil {
		c.Activities = make(map[string]Activity)
	}
	c.Activities[name] = a
	return nil
}

// Bindings returns the activities, in the order of their names, for a worker. Programs log their output to log. It starts nothing. The error
// lists all invalid activities.
func (c Config) Bindings(log *slog.Logger) ([]pawl.ActivityBinding, error) {
	var bindings []pawl.ActivityBinding
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Activities)) {
		b, err := c.Activities[name].bind(name, log)
		if err != nil {
			errs = append(errs, fmt.Errorf("activity %q: %w", name, err))
			continue
		}
		bindings = append(bindings, b)
	}
	return bindings, errors.Join(errs...)
}

// Concurrency returns the configured concurrency by task queue: the lowest, if activities of a queue differ.
func (c Config) Concurrency() map[string]int {
	queues := make(map[string]int)
	for name, a := range c.Activities {
		if q := cmp.Or(a.Queue, name); a.Concurrency > 0 && (queues[q] == 0 || a.Concurrency < queues[q]) {
			queues[q] = a.Concurrency
		}
	}
	return queues
}

// run is the function of an activity. Its error is a *failure, or the cause of the context's end.
type run func(ctx context.Context, in json.RawMessage) (json.RawMessage, error)

func (a Activity) bind(name string, log *slog.Logger) (pawl.ActivityBinding, error) {
	if err := a.check(name); err != nil {
		return pawl.ActivityBinding{}, err
	}
	attempt := a.endpoint()
	if a.HTTP == "" {
		attempt = a.program(log)
	}
	handle := pawl.NewActivity[json.RawMessage, json.RawMessage](name, pawl.Queue(cmp.Or(a.Queue, name)))
	b := handle.Do(a.retry().repeat(a.bounded(attempt)))
	if a.Grace > 0 {
		b = b.WithGrace(a.Grace.Std())
	}
	return b, nil
}

func (a Activity) check(name string) error {
	if err := errors.Join(pawl.ValidateName(name), pawl.ValidateName(cmp.Or(a.Queue, name))); err != nil {
		return err
	}
	if l := a.Limit; l != nil {
		if err := cmp.Or(l.Validate(), limit.CheckPolicy(limit.ActionLevel+name, *l)); err != nil {
			return err
		}
		if !l.Limits() {
			return errors.New("limit requires concurrency, rate or quota")
		}
	}
	switch {
	case (len(a.Exec) == 0) == (a.HTTP == ""):
		return errors.New("one of exec and http is required")
	case a.Concurrency < 0:
		return fmt.Errorf("concurrency must be positive (got %d)", a.Concurrency)
	case a.Retry != nil && a.Retry.Attempts < 0:
		return fmt.Errorf("retry.attempts must be positive (got %d)", a.Retry.Attempts)
	case a.HTTP == "":
		if a.Headers != nil || a.AllowPrivate {
			return errors.New("headers and allow_private are for http")
		}
		return nil
	case a.Dir != "" || a.Env != nil || a.Permanent != nil:
		return errors.New("dir, env and permanent are for exec")
	}
	u, err := url.Parse(a.HTTP)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("http: must be a URL such as https://pay.example/charge")
	}
	return nil
}

func (a Activity) retry() Retry {
	r := Retry{onRequest: true}
	if a.Retry != nil {
		r = *a.Retry
	}
	r.Attempts = cmp.Or(r.Attempts, 5)
	r.Initial = cmp.Or(r.Initial, text.Duration(time.Second))
	r.Max = cmp.Or(r.Max, text.Duration(time.Minute))
	return r
}

// split splits a command line at spaces. Single and double quotation marks group, and a backslash escapes the next character, except
// within single ones. No shell is involved: other characters are not special.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			inWord, quote = true, c
		case quote == 0 && (c == ' ' || c == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quotation mark or a backslash at the end is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
