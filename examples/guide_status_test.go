package examples

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/custom-status.md and docs/guide/continue-as-new.md.

var (
	Move  = pawl.NewOrchestration[[]string, pawl.None]("move")
	Moved = pawl.NewStatus[Progress]()
)

var (
	Label   = pawl.NewOrchestration[[]string, pawl.None]("label")
	Printed = pawl.NewNamedStatus[string]("printed")
)

type Progress struct {
	Done int    `json:"done"`
	Of   int    `json:"of"`
	Now  string `json:"now,omitempty"`
}

func move(ctx *pawl.Context, boxes []string) (pawl.None, error) {
	for i, box := range boxes {
		if err := Moved.Set(ctx, Progress{Done: i, Of: len(boxes), Now: box}); err != nil {
			return pawl.None{}, err
		}
		if _, err := HandOver.Call(ctx, Box{Content: box}, pawl.Retry{}); err != nil {
			return pawl.None{}, err
		}
	}
	return pawl.None{}, Moved.Set(ctx, Progress{Done: len(boxes), Of: len(boxes)})
}

var Unpack = pawl.NewOrchestration[[]string, pawl.None]("unpack")

// unpack opens one box per execution. The status carries what it remembers of earlier boxes.
func unpack(ctx *pawl.Context, boxes []string) (pawl.None, error) {
	if len(boxes) == 0 {
		return pawl.None{}, Moved.Clear(ctx)
	}
	at, _, err := Moved.Get(ctx) // zero the first time
	if err != nil {
		return pawl.None{}, err
	}
	if err := Moved.Set(ctx, Progress{Done: at.Done + 1, Of: at.Done + len(boxes), Now: boxes[0]}); err != nil {
		return pawl.None{}, err
	}
	return Unpack.ContinueAsNew(ctx, boxes[1:])
}

func follow(ctx context.Context, c *client.Client, id string) (last Progress, err error) {
	for at, err := range client.WatchStatus(ctx, c, Moved, id) {
		if err != nil {
			return last, err
		}
		last = at.Value
		slog.InfoContext(ctx, "moving", "done", last.Done, "of", last.Of, "now", last.Now)
	}
	return last, nil // the instance has ended
}

// progress answers with the first status after ?after=, or 204 if there is none for half a minute.
func progress(c *client.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(r.Context(), 30*time.Second)
		defer stop()
		after, _ := strconv.ParseUint(r.FormValue("after"), 10, 64)
		at, err := client.NextStatus(ctx, c, Moved, r.PathValue("id"), after)
		switch {
		case errors.Is(err, client.ErrNotFound):
			http.Error(w, "no such move", http.StatusNotFound)
		case errors.Is(err, client.ErrEnded):
			http.Error(w, "it has ended", http.StatusGone)
		case errors.Is(err, context.DeadlineExceeded):
			w.WriteHeader(http.StatusNoContent)
		case err != nil:
			http.Error(w, "ask again", http.StatusServiceUnavailable)
		default:
			_ = json.NewEncoder(w).Encode(at)
		}
	}
}

// label prints a label for each box and publishes the last one as a separate status.
func label(ctx *pawl.Context, boxes []string) (pawl.None, error) {
	for i, box := range boxes {
		if err := Printed.Set(ctx, "label of "+box); err != nil {
			return pawl.None{}, err
		}
		if err := Moved.Set(ctx, Progress{Done: i + 1, Of: len(boxes)}); err != nil {
			return pawl.None{}, err
		}
	}
	return pawl.None{}, nil
}

func TestGuideLabelsAreANamedStatus(t *testing.T) {
	c := fleets(t, Label.Do(label))
	run, err := client.Start(t.Context(), c, Label, "l-1", []string{"books", "lamp"})
	if err != nil {
		t.Fatal(err)
	}
	if at, err := client.NextStatus(t.Context(), c, Printed, "l-1", 2); err != nil || at.Value != "label of lamp" || at.Version != 3 {
		t.Errorf("%+v, %v", at, err)
	}
	if at, err := client.CustomStatus(t.Context(), c, Moved, "l-1"); err != nil || at.Value.Done != 2 || at.Version != 4 {
		t.Errorf("%+v, %v", at, err)
	}
	if _, err := client.CustomStatus(t.Context(), c, pawl.NewNamedStatus[string]("other"), "l-1"); !errors.Is(err, client.ErrNoStatus) {
		t.Error(err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.NextStatus(t.Context(), c, Printed, "l-1", 3); !errors.Is(err, client.ErrEnded) { // version 4 is of the other one
		t.Error(err)
	}
	d, err := c.Describe(t.Context(), "l-1")
	if err != nil || string(d.NamedStatuses["printed"].Value.Data) != `"label of lamp"` || d.CustomStatus.Version != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	env := pawltest.New(t, Label.Do(label))
	if _, err := pawltest.Run(env, Label, []string{"books"}); err != nil {
		t.Fatal(err)
	}
	if got := pawltest.Statuses(env, Printed); !slices.Equal(got, []string{"label of books"}) {
		t.Errorf("%q", got)
	}
}

func TestGuideMoveIsFollowedToItsEnd(t *testing.T) {
	c := fleets(t, Move.Do(move))
	if _, err := client.Start(t.Context(), c, Move, "m-1", []string{"books", "lamp", "chairs"}); err != nil {
		t.Fatal(err)
	}
	if last, err := follow(t.Context(), c, "m-1"); err != nil || last != (Progress{Done: 3, Of: 3}) {
		t.Errorf("%+v, %v", last, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/moves/{id}", progress(c))
	for url, want := range map[string]int{"/moves/m-1": 200, "/moves/m-1?after=4": 410, "/moves/m-2": 404} {
		w := httptest.NewRecorder()
		for within := 2 * time.Second; ; within *= 2 { // an instance that does not exist may start meanwhile
			ctx, stop := context.WithTimeout(t.Context(), within)
			mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil))
			stop()
			if w.Code != http.StatusNoContent || within > soon { // on a busy machine, the fleet may not answer within the first
				break
			}
			w = httptest.NewRecorder()
		}
		if w.Code != want {
			t.Errorf("%s: %d %s", url, w.Code, w.Body)
		}
	}
}

func TestGuideUnpackingContinuesItsStatusAndClearsIt(t *testing.T) {
	env := pawltest.New(t, Unpack.Do(unpack))
	if _, err := pawltest.Run(env, Unpack, []string{"books", "lamp"}); err != nil {
		t.Fatal(err)
	}
	want := []Progress{{Done: 1, Of: 2, Now: "books"}, {Done: 2, Of: 2, Now: "lamp"}, {}}
	if got := pawltest.Statuses(env, Moved); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestGuideStatusAndContinueAsNewPagesShowThisCode(t *testing.T) {
	code := doctest.Read(t, "guide_status_test.go", "counter.go")
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/custom-status.md"), 6, code)
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/continue-as-new.md"), 1, code)
}
