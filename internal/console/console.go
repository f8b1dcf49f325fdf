// Package console is the web console of a namespace. Its pages are rendered on the server and can be read without
// JavaScript.
//
// Every change is a request to the API of package gateway, made in this process with the credentials of the page's request.
// The console can therefore do nothing that the API cannot, and access, size limits and the audit log are implemented once.
// A page requires the same role as its operation. Everything shown is escaped by html/template; the Content-Security-Policy
// permits no inline script or style, no other host and no frame. The path of an asset contains the hash of its content.
package console

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/live"
	"github.com/pawlrun/pawl/pkg/client"
)

// Config configures a console.
type Config struct {
	Client func() *client.Client // client of the namespace; nil while there is none
	API    http.Handler          // API of the same namespace, at /api/v1/
	Access access.Policy
	Live   *live.Hub // changes in the same namespace
	Faults *Faults   // nil: no page of faults
	Logger *slog.Logger
}

// requestTime is the timeout of a page.
const requestTime = 10 * time.Second

const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

type console struct {
	Config

	assets      *assets
	jobs        *jobs
	workers     *workers
	throughputs throughputs
}

// Handler serves the console. It is safe for concurrent use. Close ends the jobs that its pages have started.
type Handler struct {
	http.Handler

	jobs *jobs
}

// Close cancels the jobs and waits for them.
func (h *Handler) Close() { h.jobs.close() }

// New returns the handler of the console.
func New(cfg Config) *Handler {
	c := &console{Config: cfg, assets: loadAssets(), jobs: newJobs()}
	c.workers = &workers{jobs: c.jobs}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/{file}", c.assets)
	mux.HandleFunc("GET /login", c.login)
	mux.HandleFunc("POST /login", c.signIn)
	mux.HandleFunc("GET /login/begin", c.beginSignIn)
	mux.HandleFunc("GET "+access.SignInDone, c.endSignIn)
	mux.HandleFunc("POST /logout", c.signOut)
	pages := c.pages()
	if cfg.Faults != nil {
		f := &faults{Faults: *cfg.Faults, jobs: c.jobs}
		pages["GET /faults"], pages["POST /faults/{fault}"] = page{access.Admin, f.show}, page{access.Admin, f.begin}
	}
	for pattern, p := range pages {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, p) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.serve(w, r, page{role: access.Viewer, show: func(*request) (view, error) {
			return view{}, &apiError{Status: http.StatusNotFound, Detail: "There is no page at " + r.URL.Path + "."}
		}})
	})
	protected := http.NewCrossOriginProtection().Handler(mux)
	return &Handler{jobs: c.jobs, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // addresses contain ids, so other sites must not receive them; forms of this site must send their origin
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		protected.ServeHTTP(w, r)
	})}
}

// page is a page or the action of a form.
type page struct {
	role access.Role
	show func(*request) (view, error)
}

// pages returns the pages by pattern.
func (c *console) pages() map[string]page {
	viewer := func(f func(*request) (view, error)) page { return page{access.Viewer, f} }
	operator := func(f func(*request) (view, error)) page { return page{access.Operator, f} }
	admin := func(f func(*request) (view, error)) page { return page{access.Admin, f} }
	return map[string]page{
		"GET /{$}":                       viewer(c.home),
		"GET /instances":                 viewer(listInstances),
		"GET /instances/{id}":            viewer(showInstance),
		"GET /instances/{id}/tree":       viewer(showTree),
		"GET /instances/{id}/send":       operator(sendForm("send")),
		"POST /instances/{id}/send":      operator(send("send")),
		"GET /instances/{id}/cancel":     operator(cancelForm),
		"POST /instances/{id}/cancel":    operator(cancelInstance),
		"GET /instances/{id}/purge":      admin(purgeForm),
		"POST /instances/{id}/purge":     admin(purgeInstance),
		"GET /instances/{id}/update":     operator(sendForm("update")),
		"POST /instances/{id}/update":    operator(send("update")),
		"GET /instances/{id}/query":      operator(sendForm("query")),
		"POST /instances/{id}/query":     operator(send("query")),
		"GET /instances/{id}/{verb}":     operator(verbForm),
		"POST /instances/{id}/{verb}":    operator(doVerb),
		"POST /bulk":                     operator(bulkForm),
		"POST /bulk/run":                 operator(c.runBulk),
		"GET /bulk/{job}":                operator(c.showJob),
		"GET /batches":                   viewer(c.listBatches),
		"GET /updates":                   viewer(listUpdates),
		"GET /stalled":                   viewer(listStalled),
		"GET /schedules":                 viewer(listSchedules),
		"GET /schedules/{id}":            viewer(showSchedule),
		"GET /schedule":                  operator(c.editSchedule),
		"POST /schedule":                 operator(c.saveSchedule),
		"GET /schedules/{id}/backfill":   operator(backfillForm),
		"POST /schedules/{id}/backfill":  operator(backfill),
		"GET /schedules/{id}/delete":     operator(deleteScheduleForm),
		"POST /schedules/{id}/delete":    operator(deleteSchedule),
		"POST /schedules/{id}/{command}": operator(commandSchedule),
		"GET /limits":                    viewer(c.listLimits),
		"GET /limits/{action}":           viewer(c.showLimit),
		"GET /limits/{action}/clear":     admin(clearForm),
		"POST /limits/{action}/clear":    admin(clearLimit),
		"GET /limits/{action}/pause":     operator(pauseActionForm),
		"POST /limits/{action}/pause":    operator(commandAction("pause")),
		"GET /limits/{action}/resume":    operator(resumeActionForm),
		"POST /limits/{action}/resume":   operator(commandAction("resume")),
		"GET /pause":                     operator(choosePause),
		"GET /policies/{level}":          admin(policyForm),
		"POST /policies/{level}":         admin(setPolicy),
		"GET /workers":                   viewer(listWorkers),
		"GET /workers/{name}/drain":      admin(drainForm),
		"POST /workers/{name}/drain":     admin(drainWorker),
		"GET /versions":                  viewer(listVersions),
		"GET /keys":                      viewer(listKeys),
		"GET /start":                     operator(startForm),
		"GET /run":                       operator(c.runForm),
		"POST /run":                      operator(c.runJob),
		"POST /start":                    operator(startInstance),
		"GET /import":                    admin(importForm),
		"POST /import":                   admin(importInstance),
	}
}

// request is a request for a page.
type request struct {
	*http.Request

	api      http.Handler
	client   *client.Client
	user     access.User
	now      time.Time
	position string // position in the stream of changes, taken before anything is read
}

// view is a page to render, or a redirect.
type view struct {
	template string // name of its file, without .html
	title    string
	section  string // current section in the navigation
	status   int    // 0: 200
	data     any
	live     string // API path of the stream that reports changes of what the page shows; empty: none
	refresh  string // value of the header Refresh, such as the seconds until the page reloads; empty: it does not
	redirect string // target after a change, so that a reload does not repeat it
}

// layout is the data that every page has.
type layout struct {
	Title, Section string
	Style, Script  string // paths
	Icon           string
	User           access.User
	SignedIn       bool // signed in with a token
	Faults         bool // whether there is a page of faults
	Now            time.Time
	Live           string // address of the stream of changes
	URI            string
	Data           any
}

// Operator reports whether the user may start, send to and cancel instances.
func (l layout) Operator() bool { return l.User.Role >= access.Operator }

// Admin reports whether the user may purge instances, clear limits and set policies.
func (l layout) Admin() bool { return l.User.Role >= access.Admin }

// serve checks access, builds the view and renders it.
func (c *console) serve(w http.ResponseWriter, r *http.Request, p page) {
	user, err := c.Access.User(r, p.role, "this page")
	if refused, is := errors.AsType[*access.Refusal](err); is {
		if refused.Status == http.StatusUnauthorized && r.Method == http.MethodGet {
			http.Redirect(w, r, c.loginPath(r), http.StatusSeeOther)
			return
		}
		c.fail(w, r, user, &apiError{Status: refused.Status, Detail: refused.Detail, Do: refused.Do})
		return
	}
	cl := c.Client()
	if cl == nil {
		c.fail(w, r, user, &apiError{Status: http.StatusServiceUnavailable, Detail: "not connected to the namespace", Do: "reload the page in a moment"})
		return
	}
	ctx, cancel := contextOf(r)
	defer cancel()
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, user, &apiError{Status: http.StatusBadRequest, Detail: err.Error()})
		return
	}
	q := &request{Request: r.WithContext(ctx), api: c.API, client: cl, user: user, now: time.Now()}
	if r.Method == http.MethodGet && c.Live != nil {
		q.position = c.Live.Position()
	}
	v, err := p.show(q)
	if v.live != "" {
		v.live += "last=" + url.QueryEscape(q.position)
	}
	switch {
	case err != nil:
		c.fail(w, r, user, problemOf(err))
	case v.redirect != "":
		http.Redirect(w, r, v.redirect, http.StatusSeeOther)
	default:
		c.render(w, r, user, v)
	}
}

// fail shows an error and what to do about it.
func (c *console) fail(w http.ResponseWriter, r *http.Request, user access.User, e *apiError) {
	v := view{template: "error", title: http.StatusText(e.Status), status: e.Status, data: e}
	if r.Method == http.MethodGet && (e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout) { // the advice of the API is about API requests
		v.data, v.refresh = &apiError{Status: e.Status, Detail: e.Detail, Do: outageHint}, "5"
	}
	c.render(w, r, user, v)
}

func (c *console) render(w http.ResponseWriter, r *http.Request, user access.User, v view) {
	l := layout{
		Title: v.title, Section: v.section, Style: c.assets.style, Script: c.assets.script, Icon: c.assets.icon, User: user,
		SignedIn: c.Access.Users() && user.Name != "", Faults: c.Config.Faults != nil, Now: time.Now(), Live: v.live, URI: r.URL.RequestURI(), Data: v.data,
	}
	part := "layout.html"
	if r.Header.Get("Pawl-Part") != "" { // the script replaces what has changed
		part = "content"
	}
	var b bytes.Buffer
	if err := c.assets.pages[v.template].ExecuteTemplate(&b, part, l); err != nil { // nothing has been sent yet
		c.Logger.Error("console page not rendered", "page", v.template, "error", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if v.refresh != "" {
		h.Set("Refresh", v.refresh)
	}
	if v.status == 0 {
		v.status = http.StatusOK
	}
	w.WriteHeader(v.status)
	_, _ = w.Write(b.Bytes()) // the client may have disconnected
}
