package client_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

// A watcher receives the changes of an instance in order, including its purge. Any NATS client can receive the outcome in JSON, by
// subscription and on request. Without a watcher no change is published.
func TestWatchersReceiveChangesAndOutcomes(t *testing.T) {
	t.Parallel()
	ready := pawl.NewEvent[string]("ready")
	o := pawl.NewOrchestration[string, string]("echo")
	fleet := integration.Start(t, o.Do(func(ctx *pawl.Context, in string) (string, error) {
		_, err := ready.Receive(ctx)
		return in, err
	}))
	plain, err := fleet.NATS.SubscribeSync("pawl.default.>")
	must(t, err)
	run := func(id string, started func()) {
		t.Helper()
		r, err := client.Start(t.Context(), fleet.Client, o, id, "in")
		must(t, err)
		started()
		must(t, client.Send(t.Context(), fleet.Client, ready, id, "now"))
		_, err = r.Result(t.Context())
		must(t, err)
	}
	run("before", func() {})
	ended := until(t, plain, "pawl.default.ended.before", "pawl.default.change.")
	if ended.Status != "completed" || string(ended.Result) != `"in"` || ended.Orchestration != "echo" || ended.At == "" {
		t.Errorf("%+v", ended)
	}
	for id, want := range map[string]string{"before": "completed", "nothing": "not-found"} {
		var got message.Outcome
		poll.Until(t, time.Minute, "the result of "+id, func() bool {
			m, err := fleet.NATS.Request("pawl.default.result."+id, nil, time.Minute)
			must(t, err)
			got = message.Outcome{}
			must(t, json.Unmarshal(m.Data, &got))
			return got.Status != "unavailable" // the owner has not read all inputs yet
		})
		if got.Status != want || want == "completed" && string(got.Result) != `"in"` {
			t.Errorf("%s: %+v", id, got)
		}
	}

	var mu sync.Mutex
	var statuses []string
	missed, closed := make(chan struct{}, 8), make(chan struct{})
	stop, err := fleet.Client.Watch(client.Watcher{
		Changed: func(c client.Change) {
			mu.Lock()
			defer mu.Unlock()
			if c.Instance == "after" && (len(statuses) == 0 || statuses[len(statuses)-1] != c.Status) {
				statuses = append(statuses, c.Status)
			}
		},
		Missed: func() { missed <- struct{}{} },
		Ended:  func() { close(closed) },
	})
	must(t, err)
	<-missed
	<-missed // no change is missed from now on
	t.Cleanup(func() { mu.Lock(); defer mu.Unlock(); t.Log(statuses) })
	changes := func(want ...string) {
		t.Helper()
		poll.Until(t, time.Minute, "the changes of after", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(statuses, want)
		})
	}
	run("after", func() { changes("running") }) // otherwise its start and its event may be one commit
	must(t, fleet.Client.Purge(t.Context(), "after"))
	changes("running", "completed", "purged")
	stop()
	<-closed
}

// until reads messages until one on the subject arrives, and fails for messages on subjects with the prefix without.
func until(t *testing.T, sub *nats.Subscription, subject, without string) (o message.Outcome) {
	t.Helper()
	for {
		m, err := sub.NextMsg(time.Minute)
		must(t, err)
		if len(m.Subject) > len(without) && m.Subject[:len(without)] == without {
			t.Errorf("published: %s", m.Subject)
		}
		if m.Subject == subject {
			must(t, json.Unmarshal(m.Data, &o))
			return o
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
