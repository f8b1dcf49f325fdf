package orchestrator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

type sum struct{ Total, Updates int }

var (
	plus    = pawl.NewUpdate[int, sum]("plus")
	ledger  = pawl.NewOrchestration[sum, sum]("ledger")
	closed  = pawl.NewEvent[pawl.None]("closed")
	errOdd  = pawl.NewError("odd")
	errZero = pawl.NewError("zero")
)

// account adds up its updates, and continues as new after each third one. A validator rejects zero, and the code rejects odd numbers.
func account(ctx *pawl.Context, s sum) (sum, error) {
	if err := plus.Validate(ctx, func(n int) error {
		if n == 0 {
			return errZero
		}
		return nil
	}); err != nil {
		return s, err
	}
	for range 3 {
		next, end := plus.Next(ctx), closed.Next(ctx)
		first, err := pawl.Select(ctx, next, end)
		if err != nil || first == pawl.Selectable(end) {
			return s, err
		}
		u, err := next.Get(ctx)
		if err != nil {
			return s, err
		}
		if u.Input%2 != 0 {
			err = u.Reject(ctx, errOdd)
		} else {
			s.Total, s.Updates = s.Total+u.Input, s.Updates+1
			err = u.Answer(ctx, s)
		}
		if err != nil {
			return s, err
		}
	}
	return ledger.ContinueAsNew(ctx, s)
}

func (s *harness) client() *client.Client {
	s.t.Helper()
	c, err := client.New(s.ctx(), s.nats, client.Options{Namespace: s.ns, RepeatInterval: 500 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func TestUpdateIsExecutedOnceAndEveryRepeatReceivesItsAnswer(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, ledger.Do(account))
	c := s.client()
	send := func(id string, n int) string {
		got, err := client.Update(s.ctx(), c, plus, "u-1", n, client.UpdateID(id))
		if err != nil && !client.Rejected(err) {
			t.Fatalf("update %s: %v", id, err)
		}
		return fmt.Sprint(got, errors.Is(err, errOdd), errors.Is(err, errZero))
	}
	first, err := client.UpdateWithStart(s.ctx(), c, ledger, "u-1", sum{}, plus, 2, client.UpdateID("start"))
	if err != nil || first != (sum{2, 1}) {
		t.Fatal(first, err)
	}
	want := map[string]string{"start": fmt.Sprint(first, false, false)}
	for i := range 10 {
		id := fmt.Sprint("k ", i)
		want[id] = send(id, i)
	}
	for id, answer := range want { // over four executions
		if got := send(id, 1000); got != answer {
			t.Errorf("the repeat of %s got %s, and the first %s", id, got, answer)
		}
	}
	if want["k 0"] != fmt.Sprint(sum{}, false, true) || want["k 1"] != fmt.Sprint(sum{}, true, false) {
		t.Errorf("rejections: %v", want)
	}
	if n := s.count("u-1", history.KindUpdateReceived); n > 3 {
		t.Errorf("the execution has %d updates", n)
	}
	if got, err := client.UpdateWithStart(s.ctx(), c, ledger, "u-1", sum{}, plus, 1000, client.UpdateID("start")); err != nil || got != first {
		t.Errorf("the repeat with a start: %v, %v", got, err)
	}
	if err := client.Send(s.ctx(), c, closed, "u-1", pawl.None{}); err != nil {
		t.Fatal(err)
	}
	out, err := client.Attach(c, ledger, "u-1").Result(s.ctx())
	if err != nil || out != (sum{22, 5}) {
		t.Errorf("executed %+v, %v, want 2 and the even numbers up to 8", out, err)
	}
	if got := send("k 8", 1000); got != want["k 8"] { // the answer outlives the instance
		t.Errorf("after the end: %s, before: %s", got, want["k 8"])
	}
	if _, err := client.Update(s.ctx(), c, plus, "u-1", 2); !errors.Is(err, pawl.ErrUpdateEnded) {
		t.Errorf("an update after the end: %v", err)
	}
}

// TestUpdatesSurviveTheirOwners: one owner accepts the updates, another one decides them, and clients request the answers from a third one, which
// has none of them in memory. In the meantime the instance continues as new.
func TestUpdatesSurviveTheirOwners(t *testing.T) {
	s := newHarness(t)
	c := s.client()
	first := s.orchestrate(orchestrator.Config{Member: "a"}, ledger.Do(account))
	s.start("ledger", "u-2", `{}`)
	const n = 60
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := make(map[int]sum)
	half := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			out, err := client.Update(s.ctx(), c, plus, "u-2", 2, client.UpdateID(fmt.Sprint(i)))
			if err != nil {
				t.Errorf("update %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if got[i] = out; len(got) == n/4 {
				close(half)
			}
		})
	}
	select {
	case <-half:
	case <-s.ctx().Done():
		t.Fatal("no updates are answered")
	}
	s.stop(first)
	s.orchestrate(orchestrator.Config{Member: "b"}, ledger.Do(account))
	wg.Wait()
	seen := make(map[sum]bool)
	for i, out := range got {
		if seen[out] || out.Total != 2*out.Updates {
			t.Errorf("update %d got %+v, which another update has as well, or which was executed twice", i, out)
		}
		seen[out] = true
	}
	if len(seen) != n {
		t.Errorf("%d answers, want %d", len(seen), n)
	}
}

// TestUpdateOfAnyNATSClientIsAnsweredInJSON follows the conventions of docs/http-api.md.
func TestUpdateOfAnyNATSClientIsAnsweredInJSON(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, ledger.Do(account))
	s.start("ledger", "u-3", `{}`)
	inbox := s.nats.NewInbox()
	replies, err := s.nats.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replies.Unsubscribe() }()
	send := func(body, id, deadline string) string {
		m := nats.NewMsg(s.subject("to.u-3.update.plus"))
		m.Data = []byte(body)
		m.Header.Set(transport.HeaderReply, inbox)
		if id != "" {
			m.Header.Set(transport.HeaderID, id)
		}
		if deadline != "" {
			m.Header.Set(transport.HeaderDeadline, deadline)
		}
		if _, err := s.nats.RequestMsgWithContext(s.ctx(), m); err != nil { // the PubAck
			t.Fatal(err)
		}
		reply, err := replies.NextMsgWithContext(s.ctx())
		if err != nil {
			t.Fatal(err)
		}
		return string(reply.Data)
	}
	want := `{"instance":"u-3","update":"plus","id":"k","status":"answered","result":{"Total":4,"Updates":1}}`
	for range 2 {
		if got := send("4", "k", ""); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for body, status := range map[string]string{"3": "rejected", "{": "rejected"} {
		var got struct{ Status, ID string }
		if err := json.Unmarshal([]byte(send(body, "", "")), &got); err != nil || got.Status != status || !strings.HasPrefix(got.ID, "#") {
			t.Errorf("the answer to %s: %+v, %v", body, got, err)
		}
	}
	if got := send("4", "late", "2001-01-01T00:00:00Z"); !strings.Contains(got, `"status":"expired"`) || !strings.Contains(got, "pawl.expired") {
		t.Errorf("an update whose deadline has passed: %s", got)
	}
}

// TestEndOfAnInstanceAnswersItsOpenUpdates holds however the instance ends.
func TestEndOfAnInstanceAnswersItsOpenUpdates(t *testing.T) {
	for name, end := range map[string]func(*harness, *client.Client, string) error{
		"cancelled": func(s *harness, c *client.Client, id string) error { return c.Cancel(s.ctx(), id, "enough") },
		"purged":    func(s *harness, c *client.Client, id string) error { return c.Purge(s.ctx(), id, client.Force()) },
		"returned": func(s *harness, c *client.Client, id string) error {
			return client.Send(s.ctx(), c, closed, id, pawl.None{})
		},
		"replaced": func(s *harness, c *client.Client, id string) error {
			first, err := client.Start(s.ctx(), c, ledger, id, sum{}, client.TerminateExisting)
			if err != nil {
				return err
			}
			second, err := client.Start(s.ctx(), c, ledger, id, sum{}, client.TerminateExisting)
			return errors.Join(err, second.WaitStarted(s.ctx()), first.WaitStarted(s.ctx())) // the first instance began, and was replaced
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			s.orchestrate(orchestrator.Config{}, ledger.Do(func(ctx *pawl.Context, in sum) (sum, error) {
				u, err := plus.Next(ctx).Get(ctx)
				if err != nil {
					return in, err
				}
				if err = u.Answer(ctx, in); err != nil {
					return in, err
				}
				if _, err = plus.Next(ctx).Get(ctx); err != nil { // the update is received, but not answered
					return in, err
				}
				_, err = closed.Receive(ctx)
				return in, err
			}))
			c := s.client()
			if _, err := client.UpdateWithStart(s.ctx(), c, ledger, "u-4", sum{}, plus, 1); err != nil {
				t.Fatal(err)
			}
			var sent []*client.SentUpdate[sum]
			for range 3 {
				u, err := client.SendUpdate(s.ctx(), c, plus, "u-4", 2)
				if err != nil {
					t.Fatal(err)
				}
				sent = append(sent, u)
			}
			s.until("the updates are received", func() bool { return s.count("u-4", history.KindUpdateReceived) == 4 })
			if n, err := c.Count(s.ctx(), client.CountOptions{Where: "unanswered = true"}); n.Count != 1 || err != nil {
				t.Errorf("%d instances with open updates, %v", n.Count, err)
			}
			if err := end(s, c, "u-4"); err != nil {
				t.Fatal(err)
			}
			s.until("no instance has open updates", func() bool {
				n, err := c.Count(s.ctx(), client.CountOptions{Where: "unanswered = true"})
				return n.Count == 0 && err == nil
			})
			for _, u := range sent {
				if out, err := u.Answer(s.ctx()); !errors.Is(err, pawl.ErrUpdateEnded) {
					t.Errorf("%+v, %v", out, err)
				}
				if name != "replaced" {
					continue
				}
				if out, err := client.AttachUpdate(c, plus, "u-4", u.ID()).Answer(s.ctx()); !errors.Is(err, pawl.ErrUpdateEnded) {
					t.Errorf("an update of the successor: %+v, %v", out, err)
				}
			}
			if name == "replaced" {
				s.openInARecreatedStream(c, "u-4", sent[0].ID())
			}
		})
	}
}

// openInARecreatedStream writes positions of a deleted stream to the ledger: their sequences are higher, and their times earlier, than those of
// the start of the instance. An update of this instance is open, and an update of a previous instance has ended.
func (s *harness) openInARecreatedStream(c *client.Client, id, left string) {
	s.t.Helper()
	old := func(update string) {
		s.t.Helper()
		if err := s.redis.HSet(s.ctx(), s.key(id, "u:"+id), effectid.UpdateKey("plus", update), "o999999.1").Err(); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := client.Update(s.ctx(), c, plus, id, 2); err != nil {
		s.t.Fatal(err)
	}
	u, err := client.SendUpdate(s.ctx(), c, plus, id, 2)
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the update is received", func() bool { return s.count(id, history.KindUpdateReceived) == 2 })
	old(u.ID())
	got := new(request.Answered)
	if err := s.request(s.conn.PartitionOf(id), &request.Update{Instance: id, Name: "plus", ID: u.ID()}, got); err != nil || got.Answer != nil {
		s.t.Errorf("an open update of this instance: %+v, %v", got.Answer, err)
	}
	old(left)
	if out, err := client.AttachUpdate(c, plus, id, left).Answer(s.ctx()); !errors.Is(err, pawl.ErrUpdateEnded) {
		s.t.Errorf("an update of the previous instance, in a deleted stream: %+v, %v", out, err)
	}
}

var balance = pawl.NewQuery[int, int]("balance")

// TestQueryIsAnsweredFromCommittedHistory holds whatever the handler does: it runs on a replica, and does not affect the instance.
func TestQueryIsAnsweredFromCommittedHistory(t *testing.T) {
	s := newHarness(t)
	returned := make(chan struct{}, 1)
	s.orchestrate(orchestrator.Config{}, ledger.Do(func(ctx *pawl.Context, in sum) (sum, error) {
		err := balance.Handle(ctx, func(of int) (int, error) {
			switch {
			case of < 0:
				return 0, errOdd
			case of > 0: // computes for longer than allowed, and writes
				for stop := time.Now().Add(200 * time.Millisecond); time.Now().Before(stop); {
					in.Total++
				}
				select {
				case returned <- struct{}{}:
				default: // the client has repeated the query
				}
			}
			return in.Total, nil
		})
		for err == nil && in.Updates < 2 {
			var u *pawl.ReceivedUpdate[int, sum]
			if u, err = plus.Next(ctx).Get(ctx); err == nil {
				in.Total, in.Updates = in.Total+u.Input, in.Updates+1
				err = u.Answer(ctx, in)
			}
		}
		return in, err
	}))
	c := s.client()
	if _, err := client.UpdateWithStart(s.ctx(), c, ledger, "u-5", sum{}, plus, 2); err != nil {
		t.Fatal(err)
	}
	readState := func(want int) (got client.QueryAnswer[int]) {
		s.until("the query is answered", func() bool { // on a busy machine, 50 ms may pass before its handler runs
			var err error
			got, err = client.Query(s.ctx(), c, balance, "u-5", 0)
			if err != nil && !errors.Is(err, client.ErrRefused) {
				t.Fatal(err)
			}
			return err == nil
		})
		if got.Value != want || got.Execution != 1 {
			t.Errorf("%+v, want %d", got, want)
		}
		return got
	}
	if got := readState(2); got.Events != 3 {
		t.Errorf("based on %d events", got.Events)
	}
	if _, err := client.Query(s.ctx(), c, balance, "u-5", 1); !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "50ms") {
		t.Errorf("a handler that takes 200 ms: %v", err)
	}
	s.until("a failure of the handler is its answer", func() bool {
		_, err := client.Query(s.ctx(), c, balance, "u-5", -1)
		return errors.Is(err, errOdd)
	})
	if _, err := c.QueryRaw(s.ctx(), "other", "u-5", history.Payload{}); !errors.Is(err, client.ErrRefused) {
		t.Errorf("an unknown query: %v", err)
	}
	if _, err := c.QueryRaw(s.ctx(), "balance", "absent", history.Payload{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown instance: %v", err)
	}
	if _, err := client.Start(s.ctx(), c, ledger, "u-6", sum{}, client.After(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.until("the delayed instance is pending", func() bool {
		d, err := c.Describe(s.ctx(), "u-6")
		return err == nil && d.Orchestration != ""
	})
	if _, err := c.QueryRaw(s.ctx(), "balance", "u-6", history.Payload{}); !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "it has not begun") {
		t.Errorf("a delayed instance: %v", err)
	}
	if _, err := client.Update(s.ctx(), c, plus, "u-5", 3, client.RunTimeout(time.Hour)); err == nil || !strings.Contains(err.Error(), "UpdateWithStart") {
		t.Errorf("an update with an option of a start: %v", err)
	}
	if out, err := client.Update(s.ctx(), c, plus, "u-5", 3); err != nil || out != (sum{5, 2}) {
		t.Errorf("the instance has become %+v, %v", out, err)
	}
	s.ended("u-5")
	readState(5)
	select {
	case <-returned: // before the check for leaked goroutines
	case <-s.ctx().Done():
		t.Error("the slow handler does not return")
	}
}

// TestDescriptionListsOpenUpdates checks updates that the code has received, and updates that it has not received.
func TestDescriptionListsOpenUpdates(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, ledger.Do(func(ctx *pawl.Context, in sum) (sum, error) {
		if _, err := plus.Next(ctx).Get(ctx); err != nil {
			return in, err
		}
		_, err := closed.Receive(ctx)
		return in, err
	}))
	c := s.client()
	s.start("ledger", "u-6", `{}`)
	for i := range 2 {
		if _, err := client.SendUpdate(s.ctx(), c, plus, "u-6", i, client.UpdateID(fmt.Sprint("k-", i)), client.By("ops"), client.Deadline(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	s.until("both are listed", func() bool {
		d, err := c.Describe(s.ctx(), "u-6")
		return err == nil && len(d.OpenUpdates) == 2 && d.OpenUpdates[1].ID == "k-1" && d.OpenUpdates[1].By == "ops" && string(d.OpenUpdates[1].Input.Data) == "1" &&
			!d.OpenUpdates[0].Deadline.IsZero()
	})
}

// A description lists the events and updates for which an instance waits, even if the instance is not resident.
func TestDescriptionNamesAwaitedEventsAndUpdatesAfterATakeover(t *testing.T) {
	s := newHarness(t)
	approved, offer, code := pawl.NewEvent[int]("approved"), pawl.NewUpdate[int, int]("offer"), pawl.NewOrchestration[int, int]("approval")
	orchestrate := func() *orchestrator.Orchestrator {
		return s.orchestrate(orchestrator.Config{}, code.Do(func(ctx *pawl.Context, _ int) (int, error) {
			offer.Next(ctx)
			return approved.Receive(ctx)
		}))
	}
	named := func(what string) {
		s.until(what, func() bool {
			d := s.describe("a-1")
			return slices.Equal(d.AwaitedEvents, []string{"approved"}) && slices.Equal(d.AwaitedUpdates, []string{"offer"})
		})
	}
	first := orchestrate()
	s.start("approval", "a-1", "1")
	named("the code is in memory")
	s.stop(first)
	orchestrate()
	named("the code is not in memory")
	s.event("approved", "a-1", "7")
	s.ended("a-1")
}
