package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func listInstances(c *call) (answer, error) {
	o, err := c.listOptions()
	if err != nil {
		return answer{}, err
	}
	stalled, err := c.flag("stalled")
	if err != nil {
		return answer{}, err
	}
	rows := c.client.List(c.Context(), o)
	if stalled {
		if len(c.query) > 2 || len(c.query) == 2 && !c.query.Has("limit") {
			return answer{}, badRequest("stalled=true can be combined only with limit")
		}
		rows = c.client.Stalled(c.Context())
	}
	limit := o.Limit - 1 // one more is read to detect a further page
	out := api.Instances{Instances: []api.Instance{}}
	for d, err := range rows {
		if partial, ok := errors.AsType[*client.PartialListError](err); ok {
			if out.Next = partial.Cursor; partial.Err != nil {
				out.Incomplete = userText(partial.Err)
			}
			break
		}
		if err != nil && len(out.Instances) == 0 {
			return answer{}, err
		}
		if err != nil {
			out.Incomplete = userText(err)
			break
		}
		if len(out.Instances) == limit {
			out.Next = o.After
			break
		}
		o.After = client.Cursor(d)
		out.Instances = append(out.Instances, api.SummaryOf(d))
	}
	return answer{body: out}, nil
}

func countInstances(c *call) (answer, error) {
	if _, err := c.where(); err != nil {
		return answer{}, err
	}
	o := client.CountOptions{Where: c.query.Get("where"), By: c.query.Get("by")}
	if _, err := filter.Grouping(o.By); err != nil {
		return answer{}, badRequest("by: %v", err)
	}
	n, err := c.client.Count(c.Context(), o)
	out := api.CountsOf(n, o)
	if err != nil && out.Count == 0 {
		return answer{}, err
	}
	if err != nil {
		out.Incomplete = userText(err)
	}
	return answer{body: out}, nil
}

// maxEmptyPages limits the reads of one request for a filter that few instances pass.
const maxEmptyPages = 2

func (c *call) listOptions() (o client.ListOptions, err error) {
	limit, err := c.limit()
	if err != nil {
		return o, err
	}
	if _, err := c.where(); err != nil {
		return o, err
	}
	o = client.ListOptions{Where: c.query.Get("where"), After: c.query.Get("cursor"), Limit: limit + 1, MaxEmptyPages: maxEmptyPages}
	switch order := c.query.Get("order"); order {
	case "", "newest":
	case "oldest":
		o.Oldest = true
	default:
		return o, badRequest("order %q: must be newest or oldest", order)
	}
	if _, _, err = request.ParseListCursor(o.After); err != nil {
		return o, badRequest("%v", err)
	}
	return o, nil
}

// where parses the query parameter where.
func (c *call) where() (filter.Where, error) {
	w, err := filter.Parse(c.query.Get("where"), time.Now())
	if err != nil {
		return nil, badRequest("where: %v", err)
	}
	return w, nil
}

func getInstance(c *call) (answer, error) {
	d, err := c.client.Describe(c.Context(), c.PathValue("id"))
	return answer{body: api.InstanceOf(d, nil)}, err
}

// startInstance starts an instance and, with wait, waits for its start or its end.
//
// A repeated start of the same id is accepted and has no effect. If the request has no id, the id is derived from the
// Idempotency-Key, so that a repeated request does not start a second instance.
func startInstance(c *call) (answer, error) {
	var s api.Start
	if err := c.decode(&s); err != nil {
		return answer{}, err
	}
	timeout, err := wait(s.Wait)
	if err != nil {
		return answer{}, err
	}
	shared, err := c.options()
	if err != nil {
		return answer{}, err
	}
	if s.Orchestration == message.BatchName { // some verbs require another role
		return answer{}, badRequest("a batch is started by POST %s/batches", root)
	}
	bad := []error{pawl.ValidateName(s.Orchestration)}
	opts := []client.InstanceOption{}
	for _, o := range shared {
		opts = append(opts, o)
	}
	if s.Version != "" {
		bad = append(bad, pawl.ValidateName(s.Version))
		opts = append(opts, client.Version(s.Version))
	}
	if len(s.Attributes) > 0 {
		_, err := attribute.Parse(string(s.Attributes))
		bad = append(bad, err)
		opts = append(opts, client.Attributes(string(s.Attributes)))
	}
	more, reuse, err := startOptions(&s)
	opts, bad = append(opts, more...), append(bad, err)
	for _, sent := range []*api.Event{s.Event, s.Update} {
		if sent != nil {
			bad = append(bad, pawl.ValidateName(sent.Name))
		}
	}
	if s.Update != nil && (s.Event != nil || s.IDReuse != "") {
		bad = append(bad, badRequest("a start with an update has no event and no id_reuse"))
	}
	waitStarted := s.WaitFor == "started"
	if !waitStarted && s.WaitFor != "" && s.WaitFor != "end" || waitStarted && s.Update != nil {
		bad = append(bad, badRequest("wait_for: must be end or, without an update, started"))
	}
	if s.ID == "" {
		s.ID = s.Orchestration + "-" + c.idSuffix()
	}
	if err := errors.Join(append(bad, pawl.ValidateID(s.ID))...); err != nil {
		return answer{}, err
	}
	if s.Update != nil {
		return c.updateWithStart(&s, opts, timeout)
	}
	run, err := c.sendStart(&s, opts, reuse)
	if err != nil {
		return answer{}, err
	}
	if s.IDReuse != "" || waitStarted {
		within := max(timeout, requestTime)
		if waitStarted {
			within = cmp.Or(timeout, requestTime)
		}
		if decided, err := c.started(run, within); !decided || waitStarted || err != nil {
			return answer{status: http.StatusAccepted, location: instancePath(run.ID()), body: api.Accepted{Instance: run.ID(), Accepted: true, Started: decided}}, err
		}
	}
	return c.await(run, timeout)
}

// sendStart starts an instance, with an event if the request has one.
func (c *call) sendStart(s *api.Start, opts []client.InstanceOption, reuse client.IDReuse) (*client.RawInstance, error) {
	all := []client.StartOption{reuse}
	for _, o := range opts {
		all = append(all, o)
	}
	if s.Event == nil {
		return c.client.StartRaw(c.Context(), s.Orchestration, s.ID, payload(s.Input), all...)
	}
	return c.client.SendOrStartRaw(c.Context(), s.Orchestration, s.ID, payload(s.Input), s.Event.Name, payload(s.Event.Data), all...)
}

// started waits until a start has taken effect or has been rejected. It reports false if neither happens in time, because no
// orchestrator has the code, or because the instance that uses the id is paused or stalled.
func (c *call) started(run *client.RawInstance, within time.Duration) (decided bool, err error) {
	ctx, cancel := context.WithTimeout(c.Context(), within)
	defer cancel()
	err = run.WaitStarted(ctx)
	if errors.Is(err, context.DeadlineExceeded) && c.Context().Err() == nil {
		return false, nil
	}
	return true, err
}

// startOptions parses the options that schedule and limit the run, and the policy for an id that is in use.
func startOptions(s *api.Start) (opts []client.InstanceOption, reuse client.IDReuse, err error) {
	if s.StartAt != "" {
		d, notDuration := time.ParseDuration(s.StartAt)
		at, notTime := time.Parse(time.RFC3339, s.StartAt)
		switch {
		case notDuration == nil && d > 0:
			opts = append(opts, client.After(d))
		case notTime == nil:
			opts = append(opts, client.StartAt(at))
		default:
			err = badRequest("start_at: %.40q is neither a duration nor an RFC 3339 time", s.StartAt)
		}
	}
	if s.RunTimeout != "" {
		d, bad := time.ParseDuration(s.RunTimeout)
		if opts = append(opts, client.RunTimeout(d)); bad != nil || d < time.Millisecond {
			err = errors.Join(err, badRequest("run_timeout %.40q: must be a duration of at least 1ms", s.RunTimeout))
		}
	}
	reuse, bad := client.ParseIDReuse(s.IDReuse)
	if bad != nil {
		err = errors.Join(err, badRequest("id_reuse: must be ignore, reject, after-failure or terminate-existing"))
	}
	return opts, reuse, err
}

// idSuffix returns the last part of a generated id. It is the same for the same Idempotency-Key.
func (c *call) idSuffix() string {
	key := c.Header.Get("Idempotency-Key")
	if key == "" {
		return nuid.Next()
	}
	sum := sha256.Sum256([]byte(key))
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

// payload returns a JSON payload, or an empty one if there is no data.
func payload(data []byte) history.Payload {
	if len(data) == 0 {
		return history.Payload{}
	}
	return history.Payload{Type: history.TypeJSON, Data: data}
}

// await answers with the outcome if the instance ends in time, and otherwise with 202.
func (c *call) await(run *client.RawInstance, within time.Duration) (answer, error) {
	running := accepted(run.ID())
	if within == 0 {
		return running, nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), within)
	defer cancel()
	result, err := run.Result(ctx)
	o, err := api.OutcomeOf(run.ID(), result, err) // a timeout of the instance is its outcome, not an error of this wait
	if errors.Is(err, context.DeadlineExceeded) && c.Context().Err() == nil {
		return running, nil
	}
	return answer{location: running.location, body: o}, err
}

func instancePath(id string) string { return "/api/v1/instances/" + url.PathEscape(id) }

// unfinished is the answer while the instance is running.
type unfinished struct {
	Instance string `json:"instance"`
	Status   string `json:"status"`
}

// getResult answers with the outcome of an instance, or with 202 if it is still running after the time in wait. With wait,
// an instance that was just started may be unknown for up to two seconds.
func getResult(c *call) (answer, error) {
	id := c.PathValue("id")
	timeout, err := wait(c.query.Get("wait"))
	if err != nil {
		return answer{}, err
	}
	if timeout == 0 {
		d, err := c.client.Describe(c.Context(), id)
		if err != nil || d.Ended.IsZero() {
			return stillRunning(id, d), err
		}
		timeout = requestTime
	}
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	result, err := c.client.AttachRaw(id).Result(ctx)
	o, err := api.OutcomeOf(id, result, err)
	if errors.Is(err, context.DeadlineExceeded) && c.Context().Err() == nil {
		d, err := c.client.Describe(c.Context(), id)
		return stillRunning(id, d), err
	}
	return answer{body: o}, err
}

func stillRunning(id string, d client.Description) answer {
	return answer{status: http.StatusAccepted, body: unfinished{Instance: id, Status: string(d.Status)}}
}

// reason is the optional body of a request that only has a reason.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

func cancelInstance(c *call) (answer, error) {
	var r reason
	if err := c.decode(&r); err != nil {
		return answer{}, err
	}
	opts, err := c.options()
	if err != nil {
		return answer{}, err
	}
	id := c.PathValue("id")
	return accepted(id), c.client.Cancel(c.Context(), id, r.Reason, opts...)
}

// sendEvent sends the body, which is any JSON value or empty, as the event's data.
func sendEvent(c *call) (answer, error) {
	id, name, p, err := c.namedBody()
	if err != nil {
		return answer{}, err
	}
	opts, err := c.options()
	if err != nil {
		return answer{}, err
	}
	return accepted(id), c.client.SendRaw(c.Context(), name, id, p, opts...)
}

// options returns the common options of a message: its user, its headers, and the Idempotency-Key as its id.
func (c *call) options() ([]client.Option, error) {
	key, err := c.key()
	opts := []client.Option{client.By(c.user.Name), c.headers()}
	if key != "" {
		opts = append(opts, client.MessageID(key))
	}
	return opts, err
}

// headers returns the trace context and the declared headers of the request, which are passed on.
func (c *call) headers() client.Option {
	var all history.Headers
	for _, key := range slices.Sorted(maps.Keys(c.Header)) {
		name, value := strings.ToLower(key), c.Header.Get(key)
		if declared, ok := strings.CutPrefix(name, declaredHeader); ok && history.IsDeclared(declared) {
			all = all.With(declared, value)
		} else if !history.IsDeclared(name) {
			all = all.With(name, value)
		}
	}
	return client.Headers(all)
}

// declaredHeader is the prefix, in lower case, of the HTTP headers that become headers of an instance.
var declaredHeader = strings.ToLower(transport.HeaderDeclared)

func accepted(id string) answer {
	return answer{status: http.StatusAccepted, location: instancePath(id), body: api.Accepted{Instance: id, Accepted: true}}
}

// purged is the answer to a purge that has taken effect.
type purged struct {
	Instance string `json:"instance"`
	Purged   bool   `json:"purged"` // always true
}

// requestTime is the timeout of a request that waits but is not a long poll.
const requestTime = 10 * time.Second

func purgeInstance(c *call) (answer, error) {
	force, err := c.flag("force")
	if err != nil {
		return answer{}, err
	}
	opts := []client.PurgeOption{client.By(c.user.Name), client.Reason(c.query.Get("reason"))}
	if force {
		opts = append(opts, client.Force())
	}
	id := c.PathValue("id")
	ctx, cancel := context.WithTimeout(c.Context(), requestTime)
	defer cancel()
	switch err := c.client.Purge(ctx, id, opts...); {
	case errors.Is(err, client.ErrPurgePending) && c.Context().Err() == nil:
		return accepted(id), nil
	case err != nil:
		return answer{}, err
	}
	return answer{body: purged{Instance: id, Purged: true}}, nil
}

// statusHandle returns the handle of the custom status with a name, or of the one without a name.
func statusHandle(name string) pawl.Status[json.RawMessage] {
	if name == "" {
		return pawl.NewStatus[json.RawMessage]()
	}
	return pawl.NewNamedStatus[json.RawMessage](name)
}

// getStatus answers with the custom status. With after and wait, it waits for a newer version.
func getStatus(c *call) (answer, error) {
	after, err := c.number("after")
	if err != nil {
		return answer{}, err
	}
	timeout, err := wait(c.query.Get("wait"))
	if err != nil {
		return answer{}, err
	}
	id := c.PathValue("id")
	s := statusHandle(c.query.Get("name"))
	at, err := client.CustomStatus(c.Context(), c.client, s, id)
	if timeout > 0 && (err == nil && at.Version <= after || errors.Is(err, client.ErrNoStatus) || errors.Is(err, client.ErrNotFound)) {
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		at, err = client.NextStatus(ctx, c.client, s, id, after)
		if errors.Is(err, context.DeadlineExceeded) && c.Context().Err() == nil {
			return answer{status: http.StatusNoContent}, nil
		}
	}
	switch {
	case err != nil:
		return answer{}, err
	case at.Version <= after:
		return answer{status: http.StatusNoContent}, nil
	}
	return answer{body: api.CustomStatus{Version: at.Version, Value: at.Value, Cleared: at.Cleared}}, nil
}

// historyPage is one page of a history.
type historyPage struct {
	Instance  string             `json:"instance"`
	Execution uint64             `json:"execution"`
	Events    []api.HistoryEvent `json:"events"`
	Next      uint64             `json:"next,omitempty"` // value of after for the next page; omitted on the last page
}

func getHistory(c *call) (answer, error) {
	execution, err := c.number("execution")
	if err != nil {
		return answer{}, err
	}
	after, err := c.number("after")
	if err != nil {
		return answer{}, err
	}
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	out := historyPage{Instance: c.PathValue("id"), Events: []api.HistoryEvent{}}
	for e, err := range c.client.HistoryAfter(c.Context(), out.Instance, execution, after, limit+1) {
		if err != nil {
			return answer{}, err
		}
		if len(out.Events) == limit {
			out.Next = e.Event.Meta().ID - 1
			break
		}
		line, err := api.HistoryEventOf(out.Instance, e)
		if err != nil {
			return answer{}, err
		}
		out.Execution = e.Execution
		out.Events = append(out.Events, line)
	}
	return answer{body: out}, nil
}

func exportInstance(c *call) (answer, error) {
	out, err := api.ExportInstance(c.Context(), c.client, c.PathValue("id"))
	return answer{body: out}, err
}

// Limits of a tree.
const (
	maxTree      = 200
	maxTreeDepth = 16
)

// node is an instance in a tree.
type node struct {
	Instance      string `json:"instance"`
	Orchestration string `json:"orchestration,omitempty"`
	Status        string `json:"status,omitempty"` // empty: not known yet, or purged
	Stalled       string `json:"stalled,omitempty"`
	Children      []node `json:"children,omitempty"` // outstanding children
	More          bool   `json:"more,omitempty"`     // some children are not listed
}

// getTree answers with an instance and its outstanding descendants: at most 200, at most 16 levels deep.
func getTree(c *call) (answer, error) {
	d, err := c.client.Describe(c.Context(), c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	room := maxTree
	return answer{body: c.node(d, &room, maxTreeDepth)}, nil
}

func (c *call) node(d client.Description, room *int, depth int) node {
	n := node{Instance: d.Instance, Orchestration: d.Orchestration, Status: string(d.Status), Stalled: d.Stalled}
	for _, child := range d.Children {
		if *room == 0 || depth == 0 {
			n.More = true
			break
		}
		*room--
		below, err := c.client.Describe(c.Context(), child.Instance)
		if err != nil { // it may have been purged, or its start may not have arrived yet
			n.Children = append(n.Children, node{Instance: child.Instance, Orchestration: child.Name})
			continue
		}
		n.Children = append(n.Children, c.node(below, room, depth-1))
	}
	return n
}
