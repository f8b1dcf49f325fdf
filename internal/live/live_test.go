package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

// fake is a source of changes.
type fake struct {
	client.Watcher

	watched, stopped int
}

func (f *fake) watch(w client.Watcher) (func(), error) {
	f.Watcher = w
	f.watched++
	return func() { f.stopped++ }, nil
}

// event is a decoded frame.
type event struct {
	id, name  string
	instances []string
}

func parse(t *testing.T, frame []byte) (e event) {
	t.Helper()
	for line := range strings.Lines(string(frame)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			var d struct{ Changes []client.Change }
			if err := json.Unmarshal([]byte(value), &d); err != nil {
				t.Fatal(err)
			}
			for _, c := range d.Changes {
				e.instances = append(e.instances, c.Instance)
			}
			slices.Sort(e.instances)
		}
	}
	return e
}

func where(t *testing.T, text string) Filter {
	t.Helper()
	w, err := filter.Parse(text, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return Filter{Where: w}
}

func open(t *testing.T, h *Hub, f Filter, last string) (*Stream, event) {
	t.Helper()
	s, first, err := h.Open(f, last)
	if err != nil {
		t.Fatal(err)
	}
	return s, parse(t, first)
}

// A stream receives the changes that its filter selects: the first one at once, further ones in batches, after it resumes those it has missed,
// and a resync if they are not known.
func TestStreamsReceiveWhatTheirFilterSelects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fake{}
		h := New(src.watch)
		running, ready := open(t, h, where(t, "status = running"), "")
		one, _ := open(t, h, Filter{Instance: "b"}, "")
		change := func(id, status, was string) {
			src.Changed(client.Change{Instance: id, Status: status, Was: was})
		}
		next := func(s *Stream) event { t.Helper(); return parse(t, <-s.Frames()) }
		if ready.name != "ready" || src.watched != 1 {
			t.Fatalf("%+v, %d subscriptions", ready, src.watched)
		}
		begin := time.Now()
		change("a", "running", "")
		if e := next(running); !slices.Equal(e.instances, []string{"a"}) || time.Since(begin) != 0 {
			t.Errorf("the first change: %+v after %v", e, time.Since(begin))
		}
		change("a", "completed", "running")
		change("b", "running", "")
		change("c", "failed", "pending")
		if e := next(one); !slices.Equal(e.instances, []string{"b"}) {
			t.Errorf("%+v", e)
		}
		last := next(running)
		if !slices.Equal(last.instances, []string{"a", "b"}) || time.Since(begin) != pace {
			t.Errorf("a batch: %+v after %v", last, time.Since(begin))
		}
		running.Close()

		change("d", "running", "")
		for id, want := range map[string]string{ready.id: "changes a b d", last.id: "changes d", "": "ready", "other-1": "resync", last.id + "9": "resync", "x": "resync"} {
			s, e := open(t, h, where(t, "status = running"), id)
			if got := strings.TrimSpace(e.name + " " + strings.Join(e.instances, " ")); got != want {
				t.Errorf("resumed at %q: %s, want %s", id, got, want)
			}
			s.Close()
		}
		src.Missed()
		if e := next(one); e.name != "resync" {
			t.Errorf("%+v", e)
		}
		if _, e := open(t, h, Filter{}, last.id); e.name != "resync" {
			t.Errorf("an id from before a gap: %+v", e)
		}
		h.Close()
		<-one.Ended()
		if _, _, err := h.Open(Filter{}, ""); err == nil || src.stopped != 1 {
			t.Errorf("after Close: %v, %d stopped", err, src.stopped)
		}
	})
}

// A change reaches all streams whose filter it passes, whatever term indexes them, and is encoded once.
func TestChangesReachTheFiltersTheyPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fake{}
		h := New(src.watch)
		defer h.Close()
		streams := map[string]*Stream{}
		for _, text := range []string{
			"", "id = order-1", "id in (order-1, order-1, x)", "id starts order-", "id starts order-2", "id starts order- and status = failed",
			"orchestration = fulfil", "orchestration in (fulfil, pay) and id != order-1", "orchestration != fulfil", "started > -1h", "status != running",
			"tenant = acme", "tenant = zoo and items > 4 and version = 2", "tenant != acme", "code = x", "parent starts cart- and unanswered = true", "stalled = true",
		} {
			streams[text], _ = open(t, h, where(t, text), "")
		}
		same, _ := open(t, h, where(t, " id = order-1 and updated > -3h"), "")
		if len(h.topics) != len(streams)-2 { // without undecidable terms, the filters "", started and tenant != are the same
			t.Errorf("%d topics", len(h.topics))
		}
		received := func(s *Stream) string {
			synctest.Wait()
			select {
			case f := <-s.Frames():
				return strings.Join(parse(t, f).instances, " ")
			default:
				return ""
			}
		}
		for _, x := range []struct {
			change client.Change
			want   []string
		}{
			{client.Change{Instance: "order-1", Orchestration: "fulfil", Status: "running"}, []string{
				"", "id = order-1", "id in (order-1, order-1, x)", "id starts order-", "orchestration = fulfil", "started > -1h", "tenant != acme",
			}},
			{client.Change{Instance: "order-22", Orchestration: "pay", Status: "purged", Was: "failed", Code: "x"}, []string{
				"", "id starts order-", "id starts order-2", "id starts order- and status = failed", "orchestration in (fulfil, pay) and id != order-1",
				"orchestration != fulfil", "started > -1h", "tenant != acme", "status != running", "code = x",
			}},
			{client.Change{Instance: "p-1", Status: "running", Version: "2", Attributes: []byte(`{"items":5,"tenant":"zoo"}`), Replaced: []string{"tenant"}}, []string{
				"", "orchestration != fulfil", "started > -1h", "tenant = acme", "tenant != acme", "tenant = zoo and items > 4 and version = 2",
			}},
			{client.Change{Instance: "p-1", Status: "running", Parent: "cart-7", Unanswered: true, Stalled: "blocked: 5 s", Attributes: []byte(`{"items":5}`)}, []string{
				"", "orchestration != fulfil", "started > -1h", "tenant != acme", "parent starts cart- and unanswered = true", "stalled = true",
			}},
		} {
			<-time.After(time.Minute)
			src.Changed(x.change)
			for text, s := range streams {
				if got := received(s) != ""; got != slices.Contains(x.want, text) {
					t.Errorf("%s, filter %q: %t", x.change.Instance, text, got)
				}
			}
			received(same)
		}
		for _, s := range streams {
			s.Close()
		}
		same.Close()
		if len(h.topics)+len(h.buckets)+len(h.lengths) != 0 {
			t.Errorf("after the last stream: %d topics, %d buckets, %d lengths", len(h.topics), len(h.buckets), len(h.lengths))
		}
	})
}

// A stream that is not read holds a bounded number of batches, and then receives a resync; so does a stream with too many instances in a
// batch. Without streams the subscription ends.
func TestSlowStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fake{}
		h := New(src.watch)
		s, _ := open(t, h, Filter{}, "")
		for i := range maxBehind + 10 {
			src.Changed(client.Change{Instance: fmt.Sprint(i), Status: "running"})
			<-time.After(time.Second)
		}
		<-s.Lost()
		if e := parse(t, s.Recover()); e.name != "resync" || len(s.Frames()) != 0 {
			t.Errorf("%+v, %d frames", e, len(s.Frames()))
		}
		for i := range maxBatch + 2 {
			src.Changed(client.Change{Instance: fmt.Sprint(i), Status: "running"})
		}
		<-s.Frames()
		if e := parse(t, <-s.Frames()); e.name != "resync" {
			t.Errorf("%s with %d instances", e.name, len(e.instances))
		}
		var all []*Stream
		for range maxStreams - 1 {
			s, _ := open(t, h, Filter{}, "")
			all = append(all, s)
		}
		if _, _, err := h.Open(Filter{}, ""); !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		for _, s := range append(all, s) {
			s.Close()
			s.Close()
		}
		<-time.After(linger + time.Second)
		synctest.Wait() // for the end of the subscription
		if src.stopped != 1 || h.streams != 0 || len(h.topics) != 0 {
			t.Errorf("%d stopped, %d streams, %d topics", src.stopped, h.streams, len(h.topics))
		}
		if h.Position() == "" || src.watched != 2 {
			t.Error("not watched again")
		}
		h.Close()
	})
}
