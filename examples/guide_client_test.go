package examples

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

// The code of docs/guide/client.md.

func open(ctx context.Context, natsURL, service string) (*client.Client, *nats.Conn, error) {
	nc, err := queue.Dial(natsURL)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(ctx, nc, client.Options{Namespace: "default", By: service})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return c, nc, nil
}

func placeOrder(ctx context.Context, c *client.Client, o Order) error {
	_, err := client.Start(ctx, c, Fulfil, o.ID, o)
	return err
}

func approveOrder(ctx context.Context, c *client.Client, id, by, requestID string) error {
	return client.Send(ctx, c, Approved, id, Approval{By: by}, client.MessageID(requestID), client.By(by))
}

// receipt answers with the receipt of an order, whichever process has started it, or with 202 if there is none within half a minute.
func receipt(c *client.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(r.Context(), 30*time.Second)
		defer stop()
		got, err := client.Attach(c, Fulfil, r.PathValue("id")).Result(ctx)
		switch {
		case errors.Is(err, ErrOutOfStock), errors.Is(err, ErrNotApproved), errors.Is(err, ErrCardDeclined):
			http.Error(w, err.Error(), http.StatusConflict)
		case errors.Is(err, context.Canceled) && r.Context().Err() == nil:
			http.Error(w, "the order was cancelled", http.StatusGone)
		case errors.Is(err, client.ErrNotFound):
			http.Error(w, "no such order", http.StatusNotFound)
		case errors.Is(err, context.DeadlineExceeded):
			w.WriteHeader(http.StatusAccepted) // still running: the browser asks again
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		default:
			_ = json.NewEncoder(w).Encode(got)
		}
	}
}

func describe(ctx context.Context, c *client.Client, id string) (string, error) {
	d, err := c.Describe(ctx, id)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s since %s\n", d.Orchestration, d.Status, d.Updated.Format(time.DateTime))
	for _, a := range d.Activities {
		fmt.Fprintf(&b, "activity %s on queue %s, worker %q, claims %d\n", a.Name, a.Queue, a.Worker, a.Claims)
	}
	for _, w := range d.LimitWaits {
		fmt.Fprintf(&b, "waits at the limit of %s, position %d of %d\n", w.Action, w.Position, w.QueueLength)
	}
	return b.String(), nil
}

func failed(ctx context.Context, c *client.Client) ([]string, error) {
	var ids []string
	for d, err := range c.List(ctx, client.ListOptions{Status: client.Failed, Limit: 100}) {
		if err != nil {
			return ids, err // some partitions did not answer: the list is incomplete
		}
		ids = append(ids, d.Instance)
	}
	return ids, nil
}

func export(ctx context.Context, c *client.Client, id string) ([]string, error) {
	var lines []string
	for entry, err := range c.History(ctx, id, 0) { // 0: the latest execution
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%d %s", entry.ID, entry.Type))
	}
	return lines, nil
}

func remove(ctx context.Context, c *client.Client, id string) error {
	err := c.Purge(ctx, id, client.Reason("customer asked for erasure"))
	if errors.Is(err, client.ErrRunning) {
		err = c.Purge(ctx, id, client.Reason("customer asked for erasure"), client.Force())
	}
	if errors.Is(err, client.ErrNotFound) { // already removed
		return nil
	}
	return err
}

func TestGuideClientPlacesFollowsAndRemovesOrders(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 5*soon)
	defer stop()
	nc, rdb := servers(t)
	orchestrate(t, nc, rdb, Orchestrations()...)
	work(t, nc, rdb)
	connect(t, nc) // the namespace exists
	c, own, err := open(ctx, nc.ConnectedUrl(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	defer c.Close()

	for range 2 { // the second start has no effect
		if err := placeOrder(ctx, c, Order{ID: "o-1", Item: "lamp", Quantity: 1, Cents: 4900}); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, soon, "the order waits for its approval", func() bool {
		text, err := describe(ctx, c, "o-1")
		return err == nil && strings.HasPrefix(text, "fulfil-order running since ")
	})
	for range 2 { // one approval: the second has the same message id
		if err := approveOrder(ctx, c, "o-1", "finance", "request-7"); err != nil {
			t.Fatal(err)
		}
	}
	if err := placeOrder(ctx, c, Order{ID: "o-2", Item: "lamp", Quantity: 101}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}/receipt", receipt(c))
	for id, want := range map[string]int{"o-1": http.StatusOK, "o-2": http.StatusConflict, "o-3": http.StatusNotFound} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/orders/"+id+"/receipt", http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d %s", id, w.Code, w.Body)
		}
	}
	if ids, err := failed(ctx, c); err != nil || len(ids) != 1 || ids[0] != "o-2" {
		t.Error(ids, err)
	}
	if lines, err := export(ctx, c, "o-1"); err != nil || len(lines) < 5 || lines[0] != "1 Started" {
		t.Error(lines, err)
	}
	for range 2 {
		if err := remove(ctx, c, "o-1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := describe(ctx, c, "o-1"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}

func TestGuideClientPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/client.md"), 7, doctest.Read(t, "guide_client_test.go", "guide_events_test.go", "guide_starts_test.go"))
}
