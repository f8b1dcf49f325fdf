package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
)

//go:embed templates assets
var files embed.FS

// assets are the embedded templates and static files.
type assets struct {
	style, script, icon string // paths
	byName              map[string][]byte
	pages               map[string]*template.Template
}

// loadAssets parses the embedded files. An invalid template is a programming error.
func loadAssets() *assets {
	a := &assets{byName: map[string][]byte{}, pages: map[string]*template.Template{}}
	a.style, a.script, a.icon = a.add("console.css"), a.add("console.js"), a.add("icon.svg")
	base := template.Must(template.New("layout.html").Funcs(functions()).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is constant
	}
	for _, name := range names {
		t := template.Must(template.Must(base.Clone()).ParseFS(files, name))
		a.pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return a
}

// add registers a file, and returns its path, which contains the hash of its content.
func (a *assets) add(name string) string {
	b, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	sum := sha256.Sum256(b)
	base, kind, _ := strings.Cut(name, ".")
	hashed := base + "-" + hex.EncodeToString(sum[:6]) + "." + kind
	a.byName[hashed] = b
	return "/assets/" + hashed
}

// ServeHTTP serves a file. It can be cached forever, because other content has another path.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, known := a.byName[r.PathValue("file")]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, r.PathValue("file"), time.Time{}, bytes.NewReader(b))
}

// functions returns the functions of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"path":        url.PathEscape,
		"pill":        func(status string) string { return pills[status] },
		"short":       func(n int, s string) string { return diagnose.Short(s, n) },
		"time":        timeText,
		"stamp":       api.Timestamp,
		"json":        formatJSON,
		"tree":        treeOf,
		"attributes":  attributeLinks,
		"table":       func(all any, now time.Time) table { return table{all, now} },
		"first":       first,
		"beyond":      beyond,
		"num":         number,
		"id":          idText,
		"ms":          func(d int64) string { return diagnose.Duration(time.Duration(d) * time.Millisecond) },
		"since":       func(from string, now time.Time) string { return spanText(from, "", now) },
		"span":        spanText,
		"quote":       shellQuote,
		"limit":       func(p api.Policy) string { return diagnose.Policy(p.Client()) },
		"rows":        func(all []api.Instance, now time.Time) rows { return rows{Rows: all, Now: now} },
		"begins":      strings.HasPrefix,
		"kind":        kindOf,
		"window":      windowText,
		"until":       func(t, now time.Time) string { return diagnose.Duration(roundLong(t.Sub(now))) },
		"between":     func(a, b time.Time) string { return diagnose.Duration(b.Sub(a)) },
		"times":       diagnose.ScheduleTimes,
		"action":      diagnose.ScheduleAction,
		"config":      configJSON,
		"overlaps":    func() []client.Overlap { return overlaps },
		"overlap":     overlapText,
		"overlapName": func(o client.Overlap) string { return strings.ReplaceAll(string(o), "_", " ") },
		"choice":      func(r rows, pick bool) rows { r.Pick = pick; return r },
	}
}

// table is a list and the time at which it is shown.
type table struct {
	Rows any
	Now  time.Time
}

// rows are the instances of a table.
type rows struct {
	Rows    []api.Instance
	Now     time.Time
	Pick    bool     // with a checkbox for each instance
	Columns []string // attributes shown as columns

	filtered func(attribute, value string) string // returns the address of the list filtered by an attribute value
}

// Cells returns the attributes of an instance in the order of the columns.
func (r rows) Cells(i api.Instance) []link {
	if len(r.Columns) == 0 {
		return nil
	}
	all, out := values(i), make([]link, len(r.Columns))
	for n, name := range r.Columns {
		out[n].Class = name
		if v, has := all[name]; has {
			out[n].Name, out[n].URL = text.Shorten(v, maxCell), r.filtered(name, v)
		}
	}
	return out
}

// pills maps a status to its CSS class.
var pills = map[string]string{"running": "run", "pending": "wait", "paused": "wait", "completed": "ok", "failed": "bad", "cancelled": "gone", "refused": "bad"}

// timeText shortens an RFC 3339 time in UTC. Milliseconds are in the title of the element.
func timeText(at string) string {
	day, clock, found := strings.Cut(at, "T")
	if !found {
		return at
	}
	clock, _, _ = strings.Cut(clock, ".")
	return day + " " + strings.TrimSuffix(clock, "Z")
}

// spanText returns the time between two RFC 3339 times, or from the first until now.
func spanText(from, until string, now time.Time) string {
	f, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return ""
	}
	if u, err := time.Parse(time.RFC3339, until); err == nil {
		now = u
	}
	return diagnose.Duration(now.Sub(f))
}

// maxShown is the maximum number of bytes of a payload on a page; the API returns all of it.
const maxShown = 64 << 10

// formatJSON indents and shortens a JSON value.
func formatJSON(v json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, v, "", "  "); err != nil {
		return diagnose.Short(string(v), maxShown)
	}
	return diagnose.Short(b.String(), maxShown)
}

// shellQuote quotes a string as one argument of a POSIX shell.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@=+,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
