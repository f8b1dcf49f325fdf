package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

type order struct {
	N int `json:"n"`
}

func contract() (pawl.Orchestration[order, string], pawl.Event[order]) {
	return pawl.NewOrchestration[order, string]("fulfil-order"), pawl.NewEvent[order]("approved")
}

func result(t *testing.T, text string) request.Answer {
	t.Helper()
	fulfil, _ := contract()
	p, err := author.Result(fulfil).Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return request.Answer{Status: "completed", Result: p}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStartedInstancePushesItsResult(t *testing.T) {
	w, c := startOwner(t, Options{By: "me", RepeatInterval: time.Hour})
	fulfil, _ := contract()
	run, err := Start(soon(t), c, fulfil, "o-1", order{N: 7})
	ok(t, err)
	in := w.input(0)
	if in.Kind != message.KindStart || in.Name != "fulfil-order" || in.Instance != "o-1" || in.By != "me" || in.ID == "" || in.Reply == "" {
		t.Fatalf("%+v", in)
	}
	if o, err := author.Input(fulfil).Decode(in.Payload); err != nil || o.N != 7 {
		t.Fatal(o, err)
	}
	w.finish("o-1", result(t, "done"))
	for range 2 {
		got, err := run.Result(soon(t))
		if err != nil || got != "done" {
			t.Fatal(got, err)
		}
	}
}

func TestLostResultIsRequestedAgain(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: 20 * time.Millisecond})
	fulfil, _ := contract()
	run, err := Start(soon(t), c, fulfil, "o-1", order{})
	ok(t, err)
	w.input(0)
	w.mute = true
	w.finish("o-1", result(t, "done"))
	got, err := run.Result(soon(t))
	if err != nil || got != "done" {
		t.Fatal(got, err)
	}
}

func TestSecondStartReturnsTheSameResult(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	fulfil, _ := contract()
	_, err := Start(soon(t), c, fulfil, "o-1", order{})
	ok(t, err)
	w.input(0)
	w.finish("o-1", result(t, "done"))
	again, err := Start(soon(t), c, fulfil, "o-1", order{})
	ok(t, err)
	if got, err := again.Result(soon(t)); err != nil || got != "done" {
		t.Fatal(got, err)
	}
}

func TestAttachedInstanceRequestsAtOnceAndReceivesPushes(t *testing.T) {
	w, c := startOwner(t, Options{RepeatInterval: time.Hour})
	fulfil, _ := contract()
	_, err := Start(soon(t), c, fulfil, "o-1", order{})
	ok(t, err)
	w.input(0)
	got := make(chan string, 1)
	go func() {
		s, err := Attach(c, fulfil, "o-1").Result(soon(t))
		got <- fmt.Sprintln(s, err)
	}()
	for deadline := time.Now().Add(time.Minute); ; { // until the owner has registered the second waiter
		w.mu.Lock()
		n := len(w.waiting["o-1"])
		w.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the owner has received no request")
		}
		runtime.Gosched()
	}
	w.finish("o-1", result(t, "done"))
	if s := <-got; s != "done <nil>\n" {
		t.Fatal(s)
	}
	if _, err := Attach(c, fulfil, "absent").Result(soon(t)); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func TestFailuresArriveAsTheirErrors(t *testing.T) {
	w, c := startOwner(t, Options{})
	declined := pawl.NewError("card-declined")
	var f *pawl.Failure
	var cancelled *pawl.Cancelled
	for id, k := range map[string]struct {
		answer request.Answer
		right  func(error) bool
	}{
		"failed":    {request.Answer{Status: "failed", Failure: author.ToFailure(fmt.Errorf("charge: %w", declined))}, func(err error) bool { return errors.Is(err, declined) && errors.As(err, &f) }},
		"cancelled": {request.Answer{Status: "cancelled", Failure: author.ToFailure(errors.New("gave up"))}, func(err error) bool { return errors.As(err, &cancelled) && errors.Is(err, context.Canceled) }},
		"named":     {request.Answer{Status: "cancelled", Failure: author.ToFailure(&pawl.Cancelled{Reason: 1, By: "x"})}, func(err error) bool { return errors.As(err, &cancelled) && cancelled.By == "x" }},
		"refused":   {request.Answer{Problem: &request.Problem{Code: request.ProblemRefused, Message: "no"}}, func(err error) bool { return errors.Is(err, ErrRefused) }},
	} {
		run, err := c.StartRaw(soon(t), "x", id, history.Payload{})
		ok(t, err)
		w.finish(id, k.answer)
		if _, err := run.Result(soon(t)); !k.right(err) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestResultOfAnotherTypeIsUndecodable(t *testing.T) {
	w, c := startOwner(t, Options{})
	fulfil, _ := contract()
	run, err := Start(soon(t), c, fulfil, "o-1", order{})
	ok(t, err)
	w.finish("o-1", request.Answer{Status: "completed", Result: history.Payload{Type: history.TypeJSON, Data: []byte(`{"a":1}`)}})
	if _, err := run.Result(soon(t)); !errors.Is(err, pawl.ErrUndecodable) {
		t.Fatal(err)
	}
}

func TestEventsAndCancelsCarryRequesterAndReason(t *testing.T) {
	w, c := startOwner(t, Options{By: "me"})
	_, approved := contract()
	ok(t, Send(soon(t), c, approved, "o-1", order{N: 3}, MessageID("m-1")))
	ok(t, Send(soon(t), c, approved, "o-1", order{N: 3}, MessageID("m-1")))
	ok(t, c.Cancel(soon(t), "o-1", "too late", By("finance")))
	if in := w.input(0); in.Name != "approved" || in.ID != "m-1" || in.By != "me" {
		t.Fatalf("%+v", in)
	}
	if in := w.input(1); in.Kind != message.KindCancel || in.Text != "too late" || in.By != "finance" {
		t.Fatalf("%+v", in)
	}
}

func TestInvalidIDsNamesAndSizesAreErrorsOfTheCall(t *testing.T) {
	_, c := startOwner(t, Options{})
	fulfil, approved := contract()
	_, err := Start(soon(t), c, fulfil, "a b", order{})
	_, err2 := c.StartRaw(soon(t), "x y", "a", history.Payload{})
	_, err3 := c.Describe(soon(t), "a,b")
	_, err4 := c.AttachRaw("").Result(soon(t))
	large := history.Payload{Type: history.TypeJSON, Data: []byte(strings.Repeat("1", transport.MaxPayload+1))}
	for i, k := range []struct{ err, want error }{
		{err, pawl.ErrBadID}, {err2, transport.ErrBadName}, {err3, pawl.ErrBadID}, {err4, pawl.ErrBadID},
		{c.Cancel(soon(t), "", ""), pawl.ErrBadID}, {Send(soon(t), c, approved, "ü", order{}), pawl.ErrBadID},
		{c.SendRaw(soon(t), "x", "a", large), transport.ErrTooLarge},
	} {
		if !errors.Is(k.err, k.want) {
			t.Errorf("%d: %v, want %v", i, k.err, k.want)
		}
	}
}

func TestWaitingEndsWithItsContextAndWithTheClient(t *testing.T) {
	_, c := startOwner(t, Options{})
	fulfil, _ := contract()
	run, err := Start(soon(t), c, fulfil, "o-1", order{})
	ok(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := run.Result(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := run.Result(context.Background()); ended <- err }()
	c.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	c.Close()
}

func TestDroppedInstanceCostsNothing(t *testing.T) {
	_, c := startOwner(t, Options{})
	for i := range 100 {
		_, err := c.StartRaw(soon(t), "x", fmt.Sprint("i", i), history.Payload{})
		ok(t, err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		runtime.GC()
		c.mu.Lock()
		n := len(c.waiting)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d waiters are left", n)
		}
	}
}

func TestRequestWithoutAnOwnerIsErrNoOwnerAfterItsTimeout(t *testing.T) {
	w, c := startOwner(t, Options{OwnerTimeout: 50 * time.Millisecond})
	_, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	w.subs[c.conn.PartitionOf("a")].Stop()
	if _, err := c.Describe(soon(t), "a"); !errors.Is(err, ErrNoOwner) {
		t.Fatal(err)
	}
	for within := 200 * time.Millisecond; ; within *= 2 { // on a busy machine, no request may be answered within the first
		ctx, cancel := context.WithTimeout(context.Background(), within)
		_, err = c.AttachRaw("a").Result(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoOwner) && within > 20*time.Second {
			t.Fatal(err)
		}
		if errors.Is(err, ErrNoOwner) {
			return
		}
	}
}

func TestHistoryIsReadInPages(t *testing.T) {
	w, c := startOwner(t, Options{})
	_, err := c.StartRaw(soon(t), "x", "a", history.Payload{})
	ok(t, err)
	w.input(0)
	var events [][]byte
	for i := range 5 {
		b, err := eventcodec.Encode(&history.TimerScheduled{FireAt: int64(i)})
		ok(t, err)
		events = append(events, b)
	}
	events = append(events, []byte("corrupt"))
	w.mu.Lock()
	w.events["a"] = events
	w.mu.Unlock()
	n := 0
	var last error
	for e, err := range c.History(soon(t), "a", 0) {
		if last = err; err != nil {
			continue
		}
		if n++; e.Event.Meta().ID != uint64(n) || e.Execution != 1 {
			t.Fatalf("%+v", e)
		}
	}
	if n != 5 || last == nil || !strings.Contains(last.Error(), "history of a: event 6") {
		t.Fatal(n, last)
	}
	for id, execution := range map[string]uint64{"absent": 0, "a": 7} {
		yielded := false
		for _, err := range c.History(soon(t), id, execution) {
			if yielded = true; !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
		}
		if !yielded {
			t.Fatalf("no error for execution %d of %s", execution, id)
		}
	}
}

func listed(seq func(func(Summary, error) bool)) (ids []string, last error) {
	for d, err := range seq {
		if last = err; err == nil {
			ids = append(ids, d.Instance)
		}
	}
	return ids, last
}

func TestListIsMergedFromAllPartitionsAndPages(t *testing.T) {
	w, c := startOwner(t, Options{OwnerTimeout: 20 * time.Millisecond})
	var want []string
	w.mu.Lock()
	for i := range 60 {
		id := fmt.Sprintf("i-%02d", i)
		w.rows[id] = &request.Description{Summary: request.Summary{Instance: id, Status: string([]Status{Running, Failed, Completed}[i%3]), StatusSince: int64(1000 - i), Updated: int64(2000 + i)}}
		want = append(want, id)
	}
	w.rows["i-07"].Stalled = "because"
	w.mu.Unlock()

	all := c.List(soon(t), ListOptions{})
	for range 2 { // the sequence can be reused
		if ids, err := listed(all); err != nil || !slices.Equal(ids, want) {
			t.Fatal(ids, err)
		}
	}
	if ids, err := listed(c.List(soon(t), ListOptions{Status: Failed, Limit: 5})); err != nil || !slices.Equal(ids, []string{"i-01", "i-04", "i-07", "i-10", "i-13"}) {
		t.Fatal(ids, err)
	}
	for d := range all {
		if got := Cursor(d); got != "1000.i-00" { // later commits do not change the position
			t.Errorf("cursor %s", got)
		}
		break
	}
	if ids, err := listed(c.List(soon(t), ListOptions{Where: "status != failed or"})); err == nil || len(ids) > 0 || !strings.Contains(err.Error(), "where: column 18") {
		t.Fatal(ids, err)
	}
	if ids, err := listed(c.Stalled(soon(t))); err != nil || !slices.Equal(ids, []string{"i-07"}) {
		t.Fatal(ids, err)
	}
	for d := range all {
		if d.Instance != "i-00" {
			t.Fatal(d.Instance)
		}
		break
	}

	w.subs[2].Stop()
	ids, err := listed(all)
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
	if !errors.Is(err, ErrNoOwner) || len(ids) == 0 || len(ids) == 60 || !slices.IsSorted(ids) {
		t.Fatal(len(ids), err)
	}
}

// From the second page on, a page of all partitions is one request to each process. Partitions are requested individually only if that
// page had too few rows or was not answered.
func TestPageOfAllPartitionsIsOneRequestToEachProcess(t *testing.T) {
	w, c := startOwner(t, Options{OwnerTimeout: 20 * time.Millisecond})
	var want []string
	w.mu.Lock()
	for i := range 60 {
		id := fmt.Sprintf("i-%02d", i)
		w.rows[id] = &request.Description{Summary: request.Summary{Instance: id, Status: "running", StatusSince: int64(1000 - i)}}
		want = append(want, id)
	}
	w.others = []int{1, 3}
	w.mu.Unlock()
	requests := func() [][]int {
		w.mu.Lock()
		defer w.mu.Unlock()
		var all [][]int
		for _, q := range w.lists {
			all = append(all, q.Partitions)
		}
		w.lists = nil
		slices.SortFunc(all, slices.Compare)
		return all
	}
	page := func(limit int, partitions ...[]int) {
		t.Helper()
		began := time.Now()
		ids, err := listed(c.List(soon(t), ListOptions{Limit: limit}))
		if err != nil || !slices.Equal(ids, want[:limit]) {
			t.Errorf("%v, %v", ids, err)
		}
		prompt := time.Since(began) < firstAttempt // otherwise a request may have been repeated
		if got := requests(); partitions != nil && prompt && !slices.EqualFunc(got, partitions, slices.Equal) {
			t.Errorf("requested %v, want %v", got, partitions)
		}
	}
	page(10, []int{0, 1, 2, 3}, []int{1, 3})
	page(10, []int{0, 2}, []int{1, 3})
	page(60, []int{0, 2}, []int{1, 3})
	for row := range c.List(soon(t), ListOptions{Limit: 10, After: "991.i-09"}) {
		if row.Instance != "i-10" {
			t.Errorf("%s follows i-09", row.Instance)
		}
		break
	}
	page(10)

	w.subs[0].Stop() // one of two partitions of a process; the other still answers
	if _, err := listed(c.List(soon(t), ListOptions{Limit: 60})); !errors.Is(err, ErrNoOwner) || !strings.Contains(err.Error(), "1 of 4 partitions") {
		t.Error(err)
	}
	w.serve(0)
	ok(t, w.conn.NATS().Flush())
	page(10)
	page(10, []int{0, 2}, []int{1, 3})

	w.mu.Lock()
	w.others = []int{3} // requested individually, page by page, without a list of partitions
	w.mu.Unlock()
	page(10, nil, nil, []int{0, 2}, []int{1, 3})
	page(10, nil, nil, []int{0, 1, 2, 3})
	page(10, nil, nil, []int{0, 1, 2})
}

func TestMissingNamespaceIsNamed(t *testing.T) {
	w, _ := startOwner(t, Options{})
	if _, err := New(soon(t), w.conn.NATS(), Options{Namespace: "elsewhere"}); !errors.Is(err, transport.ErrNoNamespace) {
		t.Fatal(err)
	}
}
