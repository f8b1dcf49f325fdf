package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/console"
	"github.com/pawlrun/pawl/internal/live"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/pkg/client"
)

// Config is what a handler serves. The zero value is usable: it serves /healthz and /readyz.
type Config struct {
	// Client returns the client of the namespace; nil while there is none, and the API answers 503. If Client itself is
	// nil, there is no API. It is called for every request.
	Client   func() *client.Client
	Access   access.Policy
	Triggers *Triggers           // what events from outside do; nil: nothing
	Ready    func() error        // what is missing, a line each; nil: the process is always ready
	Faults   *console.Faults     // that the console offers: of a demonstration only; nil: none
	Metrics  prometheus.Gatherer // nil: there is no /metrics
	Logger   *slog.Logger        // of changes and of requests that failed through no fault of theirs; default: discard
}

// Handler serves a fleet. It is safe for concurrent use. Close ends its streams of events.
type Handler struct {
	http.Handler

	hub     *live.Hub // nil: there is no API
	console *console.Handler
}

// Close ends the streams of events. Requests for further ones are refused.
func (h *Handler) Close() {
	if h.hub != nil {
		h.hub.Close()
		h.console.Close()
	}
}

// New makes a handler.
func New(cfg Config) *Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Triggers == nil {
		cfg.Triggers = &Triggers{}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", cfg.readyz)
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	var hub *live.Hub
	var pages *console.Handler
	if cfg.Client != nil {
		hub = live.New(func(w client.Watcher) (func(), error) {
			c := cfg.Client()
			if c == nil {
				return nil, client.ErrClosed
			}
			return c.Watch(w)
		})
		a := &server{
			hub: hub, triggers: cfg.Triggers,
			client: cfg.Client, access: cfg.Access, audit: cfg.Logger, document: document(operations()),
			log: outage.New(cfg.Logger).Logger(), // clients choose how often a request fails
		}
		router := a.router()
		mux.Handle("/api/", router)
		mux.HandleFunc("POST /hooks/{name}", a.serveHook)
		mux.HandleFunc("/hooks/{name}", func(w http.ResponseWriter, r *http.Request) { a.refuseMethod(w, r, http.MethodPost) })
		pages = console.New(console.Config{Client: cfg.Client, API: router, Access: cfg.Access, Live: hub, Faults: cfg.Faults, Logger: a.log})
		mux.Handle("/", pages)
	}
	return &Handler{compress(mux), hub, pages}
}

func (cfg Config) readyz(w http.ResponseWriter, _ *http.Request) {
	if cfg.Ready != nil {
		if err := cfg.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = fmt.Fprintln(w, "ready")
}

// server serves a namespace.
type server struct {
	client   func() *client.Client
	access   access.Policy
	hub      *live.Hub
	triggers *Triggers
	log      *slog.Logger // of failures, limited
	audit    *slog.Logger // of changes: each is written
	document []byte       // OpenAPI
}

// router serves the operations, and refuses whatever else is under /api/.
func (a *server) router() http.Handler {
	mux := http.NewServeMux()
	methods := make(map[string][]string) // by path
	for _, o := range operations() {
		mux.HandleFunc(o.method+" "+o.path, func(w http.ResponseWriter, r *http.Request) { a.serve(&o, w, r) })
		methods[o.path] = append(methods[o.path], o.method)
	}
	mux.HandleFunc("GET /api/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.document)
	})
	for path, allowed := range methods {
		slices.Sort(allowed)
		allow := strings.Replace(strings.Join(allowed, ", "), "GET", "GET, HEAD", 1)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { a.refuseMethod(w, r, allow) })
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, &problem{Status: http.StatusNotFound, Detail: "there is nothing at " + r.URL.Path, Do: "GET /api/v1/openapi.json lists the operations"})
	})
	return mux
}

func (a *server) refuseMethod(w http.ResponseWriter, r *http.Request, allow string) {
	w.Header().Set("Allow", allow)
	a.refuse(w, r, &problem{Status: http.StatusMethodNotAllowed, Detail: fmt.Sprintf("%s is not a method of %s; allowed: %s", r.Method, r.URL.Path, allow)})
}

// serve checks access, calls the operation and writes its answer. A change is logged.
func (a *server) serve(o *operation, w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(o, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	if o.stream != nil {
		if err := o.stream(c, w); err != nil {
			a.refuse(w, r, err)
		}
		return
	}
	// A long poll takes longer than the server allows other answers. A writer without deadlines is that of a test.
	c.control = http.NewResponseController(w)
	_ = c.control.SetWriteDeadline(time.Now().Add(maxWait + writeTimeout))
	if r.Body == nil || r.Body == http.NoBody {
		c.waits()
	}
	begin := time.Now()
	out, err := o.serve(c)
	if err != nil {
		out = answer{} // what was made of it is not known
	}
	if o.role > access.Viewer {
		a.logChange(r, o.id, c.user.Name, begin, out, err)
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	if out.location != "" {
		w.Header().Set("Location", out.location)
	}
	if out.status == 0 {
		out.status = http.StatusOK
	}
	a.write(w, out.status, "application/json", out.body)
}

// logChange writes the line of a change into the audit log. What a request has made, which its path does not name, is its location.
func (a *server) logChange(r *http.Request, operation, by string, begin time.Time, out answer, err error) {
	a.audit.Info("change requested over HTTP", "operation", operation, "path", r.URL.Path, "location", out.location, "by", by, "remote", r.RemoteAddr,
		"duration", time.Since(begin), "error", errorText(err))
}

// admit decides whether a request may be served.
func (a *server) admit(o *operation, r *http.Request) (*call, error) {
	user, err := a.access.User(r, o.role, o.id)
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // a parameter would be missing, and the answer about something else
		return nil, badRequest("the query: %v", err)
	}
	if err := o.checkQuery(query); err != nil {
		return nil, err
	}
	c := a.client()
	if c == nil {
		return nil, &problem{Status: http.StatusServiceUnavailable, Detail: "not connected to the namespace", Do: "repeat the request"}
	}
	return &call{Request: r, client: c, hub: a.hub, triggers: a.triggers, query: query, user: user, optional: o.optional}, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return userText(err)
}

// refuse answers with a problem.
func (a *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		what := "http request failed"
		if p.Status != http.StatusInternalServerError { // lines are limited by message: these must not hide those
			what = "http request not answered, namespace unavailable"
		}
		a.log.Warn(what, "path", r.Pattern, "status", p.Status, "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	if p.Do == "" {
		p.Do = whatToDo(p.Status)
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status) // RFC 9457, 4.2.1: the status is the type
	a.write(w, p.Status, "application/problem+json", p)
}
