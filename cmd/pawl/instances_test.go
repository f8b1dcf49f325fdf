package main

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
)

// progress is the custom status of a tour.
type progress struct {
	Done int `json:"done"`
}

// startTours runs an orchestrator whose orchestrations use most kinds of messages. A tour waits for
// a step, continues as new twice, and then waits for its child, a rest.
func startTours(t *testing.T) (nats string) {
	t.Helper()
	var (
		tour    = pawl.NewOrchestration[int, string]("tour")
		rest    = pawl.NewOrchestration[string, string]("rest")
		step    = pawl.NewEvent[int]("step")
		wake    = pawl.NewEvent[pawl.None]("wake")
		status  = pawl.NewStatus[progress]()
		walking = func(ctx *pawl.Context, executions int) (string, error) {
			switch executions {
			case 0:
				n, err := step.Receive(ctx)
				if err != nil {
					return "", err
				}
				if err := status.Set(ctx, progress{Done: n}); err != nil {
					return "", err
				}
				return tour.ContinueAsNew(ctx, 1)
			case 1:
				return tour.ContinueAsNew(ctx, 2)
			}
			if err := step.Send(ctx, "elsewhere", 7); err != nil {
				return "", err
			}
			rested, err := rest.Call(ctx, "inn", pawl.ID("rest-1"))
			if err != nil {
				return "", err
			}
			return rested, status.Set(ctx, progress{Done: 100})
		}
		resting = func(ctx *pawl.Context, where string) (string, error) {
			if err := status.Set(ctx, progress{}); err != nil {
				return "", err
			}
			if _, err := wake.Receive(ctx); err != nil {
				return "", err
			}
			return "rested at the " + where, status.Clear(ctx)
		}
	)
	return harness(t, fleets{orchestrations: []pawl.OrchestrationBinding{tour.Do(walking, pawl.Version("2")), rest.Do(resting)}})
}

// wantText requires the output of a command to contain the parts in this order.
func wantText(t *testing.T, out string, parts ...string) {
	t.Helper()
	if p := missing(out, parts...); p != "" {
		t.Errorf("%q is missing, or in another order, in\n%s", p, out)
	}
}

// missing returns the first of the parts that the output does not contain in this order; empty: none.
func missing(out string, parts ...string) string {
	rest := strings.Join(strings.Fields(out), " ")
	for _, p := range parts {
		_, after, found := strings.Cut(rest, p)
		if !found {
			return p
		}
		rest = after
	}
	return ""
}

func TestVersionsExecutionsChildrenAndTheCustomStatusAreShown(t *testing.T) {
	nats := startTours(t)
	at := func(args ...string) []string { return append(args, "--nats", nats) }

	if code, out, errs := command(t, at("history", "t-1")...); code != 1 || out != "" || !strings.Contains(errs, "there is no instance t-1") {
		t.Errorf("the history of an unknown instance: code %d, %q, %q", code, out, errs)
	}
	if out := must(t, at("start", "tour", "t-1", "--input", "0", "--version", "2", "--event", "step=1")...); out != "t-1\n" {
		t.Errorf("start: %q", out)
	}
	eventually(t, "the tour waits for its child, and the child for an event", func() bool {
		return strings.Contains(must(t, at("get", "t-1")...), "running, waits for event wake")
	})
	wantText(t, must(t, at("get", "t-1")...), "orchestration tour", "version 2", "status running", "execution 3", "waits for child rest-1", `custom status {"done":1} (version 1)`,
		"CHILD NAME INSTANCE FOR STATE", "rest rest-1", "running, waits for event wake")
	wantText(t, must(t, at("get", "t-1", "--json")...), `"version":"2"`, `"children":[{"event":3,"name":"rest","instance":"rest-1","scheduled":`, `"status":"running"`,
		`"custom_status":{"version":1,"value":{"done":1}}`)
	wantText(t, must(t, at("get", "rest-1")...), "parent t-1")
	wantText(t, must(t, at("list")...), "INSTANCE ORCHESTRATION VERSION STATUS", "tour 2 running")

	wantText(t, must(t, at("count", "--by", "orchestration")...), "VALUE INSTANCES", "rest 1", "tour 1")
	if out := must(t, at("count", "--where", "status = running and version = 2")...); out != "1\n" {
		t.Errorf("counted %q", out)
	}
	wantText(t, must(t, at("count", "--by", "version", "--json")...), `{"count":2,"by":"version","groups":[{"value":"","count":1},{"value":"2","count":1}]}`)
	wantText(t, must(t, at("count", "--by", "status", "--json")...), `{"count":2,"by":"status","groups":[{"value":"running","count":2}],"stalled":1}`)
	wantText(t, must(t, at("count", "--json")...), `{"count":2}`)
	wantText(t, must(t, at("history", "t-1")...), "t-1, execution 3 of 3: --execution 2 shows the previous one",
		"Started tour (version 2) 2", "EventSent step to elsewhere 7", `ChildScheduled rest as rest-1 "inn"`)
	wantText(t, must(t, at("history", "t-1", "--execution", "2")...), "t-1, execution 2 of 3: the latest is shown without --execution", "ContinuedAsNew (version 2) 2")
	if out := must(t, at("history", "rest-1", "--execution", "1")...); !strings.HasPrefix(out, "ID") || !strings.Contains(out, `rest (child of t-1) "inn"`) {
		t.Errorf("one execution:\n%s", out)
	}
	for execution, want := range map[string]string{"1": "execution 1 of t-1 is no longer kept: the instance is in execution 3", "7": "no execution 7"} {
		if code, out, errs := command(t, at("history", "t-1", "--execution", execution)...); code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("execution %s: code %d, %q, %q", execution, code, out, errs)
		}
	}
	for line := range strings.Lines(must(t, at("history", "t-1", "--json")...)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

func TestCustomStatusIsShownAndFollowedToTheEnd(t *testing.T) {
	nats := startTours(t)
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	must(t, at("start", "tour", "t-1", "--input", "0")...)
	eventually(t, "the tour has started", func() bool { code, _, _ := command(t, at("get", "t-1")...); return code == 0 })
	if code, out, errs := command(t, at("status", "t-1")...); code != 0 || out != "" || errs != "pawl: t-1 has no custom status\n" {
		t.Errorf("without a status: code %d, %q, %q", code, out, errs)
	}
	if out := must(t, at("status", "t-1", "--json")...); out != `{"instance":"t-1","status":"running"}`+"\n" {
		t.Errorf("without a status: %s", out)
	}

	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, at("status", "t-1", "--follow", "--json"), streams{w, io.Discard})
		_ = w.Close()
	}()
	lines := json.NewDecoder(r)
	follows := func(want statusLine) {
		t.Helper()
		var got statusLine
		if err := lines.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	// A running instance receives only the event of a start.
	must(t, at("start", "tour", "t-1", "--event", "step=41")...)
	follows(statusLine{Instance: "t-1", Version: 1, Value: json.RawMessage(`{"done":41}`)})
	if out := must(t, at("status", "t-1")...); out != `{"done":41}`+"\n" {
		t.Errorf("status: %s", out)
	}
	must(t, at("send", "rest-1", "step", "1")...) // the instance does not read it
	must(t, at("send", "rest-1", "wake")...)
	follows(statusLine{Instance: "t-1", Version: 2, Value: json.RawMessage(`{"done":100}`)})
	follows(statusLine{Instance: "t-1", Status: "completed"})
	if code := <-ended; code != 0 {
		t.Errorf("following ends with code %d", code)
	}

	if out := must(t, at("status", "rest-1")...); out != "(cleared)\n" {
		t.Errorf("cleared: %s", out)
	}
	wantText(t, must(t, at("status", "rest-1", "--json")...), `"version":2,"cleared":true`)
	wantText(t, must(t, at("get", "rest-1")...), "unread events 1 step", "custom status cleared (version 2)")
	wantText(t, must(t, at("get", "rest-1", "--json")...), `"unread_events":[{"event":"step","count":1}]`)
	code, out, errs := command(t, at("status", "t-1", "--follow")...)
	if code != 0 || out != `{"done":100}`+"\n" || errs != "pawl: t-1 has ended: completed\n" {
		t.Errorf("an ended instance: code %d, %q, %q", code, out, errs)
	}
	if code, out, errs := command(t, at("status", "absent", "--follow")...); code != 1 || out != "" || !strings.Contains(errs, "there is no instance absent") {
		t.Errorf("an unknown instance: code %d, %q, %q", code, out, errs)
	}
	must(t, at("start", "rest", "rest-2", "--input", `"sea"`)...)
	brief, stop := context.WithCancel(ctx) // as by Ctrl-C
	defer stop()
	var stderr strings.Builder
	if code := run(brief, at("status", "rest-2", "--follow"), streams{onWrite(stop), &stderr}); code != 1 || !strings.Contains(stderr.String(), "rest-2 continues") {
		t.Errorf("interrupted: code %d, %s", code, stderr.String())
	}
}

// onWrite is a writer that calls a function for each write.
type onWrite func()

func (f onWrite) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

func TestUnregisteredVersionIsReported(t *testing.T) {
	nats := startTours(t)
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	must(t, at("start", "tour", "t-9", "--version", "9")...)
	eventually(t, "t-9 is stalled", func() bool { return strings.Contains(must(t, at("list", "--stalled")...), "t-9") })
	if code, out, errs := command(t, at("history", "t-9")...); code != 1 || out != "" || !strings.Contains(errs, "t-9 has inputs and has not begun") {
		t.Errorf("the history of an instance that has not begun: code %d, %q, %q", code, out, errs)
	}
	if code, out, errs := command(t, at("history", "t-9", "--execution", "2")...); code != 1 || out != "" || !strings.Contains(errs, "has not begun") {
		t.Errorf("a missing execution: code %d, %q, %q", code, out, errs)
	}
	wantText(t, must(t, at("get", "t-9")...), "status", "stalled", "9")
	wantText(t, must(t, at("requeue", "t-9")...), "t-9: will be retried")
	if code, _, errs := command(t, at("requeue", "absent")...); code != 1 || !strings.Contains(errs, "absent") {
		t.Errorf("code %d, %q", code, errs)
	}
}
