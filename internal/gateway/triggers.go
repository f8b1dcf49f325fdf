package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl"
)

// Triggers define the actions of external events, and the webhooks that are accepted. They are read from a JSON file:
//
//	{
//	  "rules": [
//	    {"type": "com.shop.order.*", "start": "fulfil-order", "id": "order-{data.id}"},
//	    {"type": "com.shop.approved", "event": "approved", "id": "order-{data.order}"}
//	  ],
//	  "hooks": {
//	    "repo": {"scheme": "github", "secret_env": "PAWL_HOOK_REPO"}
//	  }
//	}
//
// The first rule whose patterns match is applied. docs/http-api.md has the details.
type Triggers struct {
	Rules []Rule          `json:"rules"`
	Hooks map[string]Hook `json:"hooks"`
}

// Rule starts an instance, or sends it an event or an update, with the data of an external event.
type Rule struct {
	Type   string `json:"type"`             // pattern of the type; * matches any text without a slash
	Source string `json:"source,omitempty"` // pattern of the source; empty: any source
	Start  string `json:"start,omitempty"`  // name of an orchestration
	Event  string `json:"event,omitempty"`  // name of an event; together with start, it is sent with the start
	Update string `json:"update,omitempty"` // name of an update, instead of an event; its answer is not awaited
	ID     string `json:"id"`               // instance id: text with {id}, {source}, {subject}, {type} and {data.PATH}
}

// Hook is a webhook at /hooks/NAME.
type Hook struct {
	Scheme    string `json:"scheme"`     // standard or github
	SecretEnv string `json:"secret_env"` // environment variable that holds the secret

	secret []byte
}

// Signature schemes, and the minimum length of a secret.
const (
	schemeStandard = "standard"
	schemeGitHub   = "github"
	minSecret      = 16 // bytes
)

// ReadTriggers reads and checks a triggers file. Secrets are read with getenv, such as os.Getenv. Errors never contain a
// secret.
func ReadTriggers(r io.Reader, getenv func(string) string) (*Triggers, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	t := &Triggers{}
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("gateway: triggers: %w", err)
	}
	var wrong []error
	for i, rule := range t.Rules {
		if err := rule.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	for name, h := range t.Hooks {
		if err := h.open(name, getenv); err != nil {
			wrong = append(wrong, fmt.Errorf("hook %s: %w", name, err))
		}
		t.Hooks[name] = h
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("gateway: triggers: %w", errors.Join(wrong...))
	}
	return t, nil
}

// readTriggers reads the triggers file at a path; an empty path has no triggers.
func readTriggers(file string) (*Triggers, error) {
	if file == "" {
		return &Triggers{}, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("gateway: triggers: %w", err)
	}
	return ReadTriggers(bytes.NewReader(b), os.Getenv)
}

func (r Rule) check() error {
	if r.Type == "" || r.ID == "" || r.Start == "" && r.Event == "" && r.Update == "" {
		return errors.New("type, id, and start, event or update are required")
	}
	if r.Event != "" && r.Update != "" {
		return errors.New("event and update exclude each other")
	}
	for _, pattern := range []string{r.Type, r.Source} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	for _, name := range []string{r.Start, r.Event, r.Update} {
		if name != "" {
			if err := pawl.ValidateName(name); err != nil {
				return err
			}
		}
	}
	_, err := r.instance(func(string) (string, error) { return "x", nil })
	return err
}

func (h *Hook) open(name string, getenv func(string) string) error {
	if err := pawl.ValidateName(name); err != nil {
		return err
	}
	secret := getenv(h.SecretEnv)
	h.secret = []byte(secret)
	switch h.Scheme {
	case schemeGitHub:
	case schemeStandard:
		var err error
		if h.secret, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil {
			return errors.New("the secret is not base64, as Standard Webhooks requires")
		}
	default:
		return fmt.Errorf("scheme %q: must be %s or %s", h.Scheme, schemeStandard, schemeGitHub)
	}
	if len(h.secret) < minSecret {
		return fmt.Errorf("the secret in the variable %q has %d bytes; at least %d", h.SecretEnv, len(h.secret), minSecret)
	}
	return nil
}

// externalEvent is an external event: a CloudEvent or a webhook.
type externalEvent struct {
	id, source, kind, subject string
	data                      json.RawMessage // JSON; may be empty
}

// rule returns the first rule that matches.
func (t *Triggers) rule(h externalEvent) (Rule, bool) {
	for _, r := range t.Rules {
		byType, _ := path.Match(r.Type, h.kind) // the patterns are valid
		bySource, _ := path.Match(r.Source, h.source)
		if byType && (r.Source == "" || bySource) {
			return r, true
		}
	}
	return Rule{}, false
}

// instance returns the instance id that the rule builds. Inserted values are escaped, so the id is valid and different
// values result in different ids.
func (r Rule) instance(value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for rest := r.ID; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		b.WriteString(text)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("id %q: a brace is not closed", r.ID)
		}
		root, _, _ := strings.Cut(name, ".")
		if !slices.Contains([]string{"data", "id", "source", "subject", "type"}, root) {
			return "", fmt.Errorf("id %q: {%s} is none of {id}, {source}, {subject}, {type} and {data.PATH}", r.ID, name)
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(pawl.EscapeID(v))
		rest = tail
	}
	if err := pawl.ValidateID(b.String()); err != nil {
		return "", err
	}
	return b.String(), nil
}

// value returns the value of a placeholder. It must be a number or a text that is not empty: otherwise different events
// would have the same id.
func (h externalEvent) value(name string) (string, error) {
	fixed, is := map[string]string{"id": h.id, "source": h.source, "subject": h.subject, "type": h.kind}[name]
	if is {
		if fixed == "" {
			return "", badRequest("the event has no %s, which the id of the instance requires", name)
		}
		return fixed, nil
	}
	d := json.NewDecoder(bytes.NewReader(h.data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", badRequest("the event's data, which the id of the instance requires, is not JSON")
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(name, "data"), "."), ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				v = nil
				break
			}
			v = at[i]
		default:
			v = nil
		}
	}
	switch v := v.(type) {
	case string:
		if v != "" {
			return v, nil
		}
	case json.Number:
		return v.String(), nil
	}
	return "", badRequest("the event has no text or number at %s, which the id of the instance requires", name)
}
