package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/pkg/client"
)

// Config says what a handler serves. The zero value is usable: it serves /healthz and /readyz.
type Config struct {
	// Client gives the client of the namespace that the API is about; nil while there is none, and
	// the API answers 503. If Client itself is nil, there is no API. It is called for every request.
	Client  func() *client.Client
	Ready   func() error        // what is missing, a line each; nil: the process is always ready
	Metrics prometheus.Gatherer // nil: there is no /metrics
	Logger  *slog.Logger        // of requests that failed by no fault of theirs; default: discard
}

// New makes a handler. It may serve any number of requests at a time.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = outage.New(cfg.Logger).Logger() // clients choose how often a request fails
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", cfg.readyz)
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	}
	if cfg.Client != nil {
		a := &api{client: cfg.Client, log: cfg.Logger}
		a.route(mux, "/api/v1/actions/{ref}/queue-stats", a.queueStats)
		mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
			a.refuse(w, r, &problem{Status: http.StatusNotFound, Detail: "there is nothing at " + r.URL.Path})
		})
	}
	return mux
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

// api is what is served about a namespace.
type api struct {
	client func() *client.Client
	log    *slog.Logger
}

// route serves the answers of get at a path, and refuses other methods in the manner of the API.
func (a *api) route(mux *http.ServeMux, path string, get func(*client.Client, *http.Request) (any, error)) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		c := a.client()
		if c == nil {
			a.refuse(w, r, &problem{Status: http.StatusServiceUnavailable, Detail: "not connected to the namespace yet, or not any more: ask again"})
			return
		}
		answer, err := get(c, r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		a.write(w, http.StatusOK, "application/json", answer)
	})
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		a.refuse(w, r, &problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not for " + r.URL.Path})
	})
}

// refuse answers with a problem.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, known := errors.AsType[*problem](err)
	if !known {
		p = problemOf(err)
	}
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		what := "http request failed"
		if p.Status != http.StatusInternalServerError { // lines are limited by message: these must not hide those
			what = "http request not answered, namespace unavailable"
		}
		a.log.Warn(what, "path", r.Pattern, "status", p.Status, "error", err)
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status) // RFC 9457, 4.2.1: the status says what it is
	a.write(w, p.Status, "application/problem+json", p)
}
