package gateway_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
)

// stream opens an event stream after an id. The returned function reads up to the next event with a name, or to the end.
func (h *harness) stream(path, last string) (next func(name string) (id, data string)) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"/api/v1"+path, nil)
	check(h.t, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	w, err := http.DefaultClient.Do(r)
	check(h.t, err)
	h.t.Cleanup(func() { _ = w.Body.Close() })
	if w.StatusCode != http.StatusOK || w.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatal(w.Status, w.Header)
	}
	lines := bufio.NewScanner(w.Body)
	return func(name string) (id, data string) {
		var is string
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				id = value
			case "event":
				is = value
			case "data":
				if data = value; is == name {
					return id, data
				}
			}
		}
		return "", ""
	}
}

// Streams stay open beyond the read timeout, resume after an id, and end when the server stops.
func TestStreamsReportChangesAndResume(t *testing.T) {
	h := newHarness(t)
	h.do(202, "POST", "/instances", `{"orchestration":"nap","id":"nap-1","attributes":{"tenant":"acme"}}`)
	poll.Until(h.t, time.Minute, "it runs", func() bool {
		return h.do(200, "GET", "/counts?where=status+%3D+running", "")["count"] != 0.0
	})
	one, others, every := h.stream("/instances/nap-1/watch", ""), h.stream("/watch?where=id+starts+other", ""), h.stream("/watch?where=status+%3D+cancelled", "")
	tenant := h.stream("/watch?where=tenant+%3D+acme+and+id+starts+nap", "")
	id, _ := one("ready")
	one("resync") // changes before the subscription may have been missed
	h.want(h.do(202, "GET", "/instances/nap-1/result?wait="+(shortRead*3/2).String(), ""), "status", "running")
	h.do(202, "POST", "/instances/nap-1/cancel", "")
	last, data := one("changes")
	for _, part := range []string{`"instance":"nap-1"`, `"orchestration":"nap"`, `"status":"cancelled"`, `"was":"running"`, `"events":`, `"at":"`} {
		if !strings.Contains(data, part) {
			t.Errorf("%s is missing in %s", part, data)
		}
	}
	if _, data := tenant("changes"); !strings.Contains(data, `"attributes":{"tenant":"acme"}`) {
		t.Error(data)
	}
	if _, data := every("changes"); !strings.Contains(data, "nap-1") {
		t.Error(data)
	}
	h.do(202, "POST", "/instances", `{"orchestration":"nap","id":"other-1"}`)
	if _, data := others("changes"); !strings.Contains(data, "other-1") || strings.Contains(data, "nap-1") {
		t.Error(data)
	}
	if _, data := h.stream("/watch", last)("changes"); !strings.Contains(data, "other-1") || strings.Contains(data, "nap-1") {
		t.Errorf("resumed: %s", data)
	}
	h.stream("/watch", id)("resync") // the id precedes the gap at the beginning
	h.do(400, "GET", "/watch?where=status+%3D+nope", "")
	h.do(400, "GET", "/watch?filter=x", "")

	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	check(t, h.server.Shutdown(ctx))
	if id, _ := others("never"); id != "" {
		t.Error("the stream did not end")
	}
}
