package gateway

import (
	"cmp"
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

// Config configures a Handler. The zero value is usable: it serves /healthz and /readyz.
type Config struct {
	// Client returns the client of the namespace, or nil while there is none; the API then answers 503. It is called for
	// every request. If Client itself is nil, there is no API.
	Client   func() *client.Client
	Access   access.Policy
	Triggers *Triggers           // actions of external events; nil: none
	Ready    func() error        // returns what is missing, one line each; nil: the process is always ready
	Faults   *console.Faults     // faults that the console of a demonstration can inject; nil: none
	Metrics  prometheus.Gatherer // gathered by /metrics; nil: no /metrics
	Logger   *slog.Logger        // receives changes, and requests that failed for a reason other than the request itself; default: discard
}

// Handler serves a fleet. It is safe for concurrent use. Close ends its event streams.
type Handler struct {
	http.Handler

	hub     *live.Hub // nil: there is no API
	console *console.Handler
}

// Close ends the event streams and refuses new ones.
func (h *Handler) Close() {
	if h.hub != nil {
		h.hub.Close()
		h.console.Close()
	}
}

// New returns a handler.
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
			log: outage.New(cfg.Logger).Logger(), // rate-limited: clients determine how often a request fails
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

// server serves the API of a namespace.
type server struct {
	client   func() *client.Client
	access   access.Policy
	hub      *live.Hub
	triggers *Triggers
	log      *slog.Logger // failures, rate-limited
	audit    *slog.Logger // changes, one line each, never rate-limited
	document []byte       // OpenAPI document
}

// router routes the operations and refuses all other requests under /api/.
func (a *server) router() http.Handler {
	mux := http.NewServeMux()
	methods := make(map[string][]string) // keyed by path
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
	// A long poll takes longer than the write timeout of the server. Test recorders do not support deadlines, so the error
	// is ignored.
	c.control = http.NewResponseController(w)
	_ = c.control.SetWriteDeadline(time.Now().Add(maxWait + writeTimeout))
	if r.Body == nil || r.Body == http.NoBody {
		c.extendReadDeadline()
	}
	begin := time.Now()
	out, err := o.serve(c)
	if err != nil {
		out = answer{} // the outcome is unknown
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
	a.write(w, cmp.Or(out.status, http.StatusOK), "application/json", out.body)
}

// logChange writes the audit line of a change. The location identifies what the request created, which is not in its path.
func (a *server) logChange(r *http.Request, operation, by string, begin time.Time, out answer, err error) {
	a.audit.Info("change requested over HTTP", "operation", operation, "path", r.URL.Path, "location", out.location, "by", by, "remote", r.RemoteAddr,
		"duration", time.Since(begin), "error", errorText(err))
}

// admit checks the access and the query of a request, and returns it as a call.
func (a *server) admit(o *operation, r *http.Request) (*call, error) {
	user, err := a.access.User(r, o.role, o.id)
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // otherwise a parameter would be silently dropped and the answer would be about something else
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

// refuse answers a request with a problem.
func (a *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		what := "http request failed"
		if p.Status != http.StatusInternalServerError { // lines are rate-limited by message: unavailability must not hide internal errors
			what = "http request not answered, namespace unavailable"
		}
		a.log.Warn(what, "path", r.Pattern, "status", p.Status, "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	p.Do = cmp.Or(p.Do, defaultAdvice(p.Status))
	p.Type, p.Title = "about:blank", http.StatusText(p.Status) // RFC 9457, 4.2.1: no type other than the status
	a.write(w, p.Status, "application/problem+json", p)
}
