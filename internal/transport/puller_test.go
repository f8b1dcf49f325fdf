package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/history"
)

func task(queue string, n int) Task {
	t := Task{Instance: fmt.Sprintf("i-%d", n), Origin: history.Position{Seq: 7, Time: 9}, Execution: 1, Activity: uint64(n) + 2, Name: "charge-card",
		Queue: queue, Attempt: 1, Payload: history.Payload{Type: history.TypeJSON, Data: []byte("1")}, ScheduledAt: 1700000000000}
	t.Effect = t.ContentID()
	return t
}

// offer publishes tasks and waits until the stream has stored them.
func offer(t testing.TB, c *Conn, queue string, from, n int) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		c.PublishTask(task(queue, from+i), func(err error) { errs <- err })
	}
	for range n {
		ok(t, get(t, errs, "an acknowledgement"))
	}
}

// offerUntilStored publishes a task repeatedly until the stream is available again.
func offerUntilStored(t testing.TB, c *Conn, queue string) {
	t.Helper()
	eventually(t, "the stream", func() bool {
		done := make(chan error, 1)
		c.PublishTask(task(queue, 0), func(err error) { done <- err })
		err := get(t, done, "an acknowledgement")
		if err != nil && !errors.Is(err, ErrNoStream) && !errors.Is(err, ErrDisconnected) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func pull(t testing.TB, c *Conn, queue string) *Puller {
	t.Helper()
	p, err := c.Pull(soon(t), queue)
	ok(t, err)
	t.Cleanup(p.Stop)
	return p
}

func TestPublishedTaskRoundTrips(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "pay.ments")
	p.Request(1)
	want := task("pay.ments", 1)
	done := make(chan error, 1)
	c.PublishTask(want, func(err error) { done <- err })
	ok(t, get(t, done, "the acknowledgement"))
	d := get(t, p.Tasks(), "the task")
	d.Ack()
	if fmt.Sprintf("%+v", d.Task) != fmt.Sprintf("%+v", want) {
		t.Fatalf("got %+v, want %+v", d.Task, want)
	}
	eventually(t, "an empty queue", func() bool { return left(t, c) == 0 })
}

func left(t testing.TB, c *Conn) uint64 {
	t.Helper()
	stream, err := c.js.Stream(soon(t), c.tasks.Name)
	ok(t, err)
	return stream.CachedInfo().State.Msgs
}

func TestBusyPullerHoldsNoTasks(t *testing.T) {
	s := newHarness(t)
	a, b := s.open(Options{}), s.open(Options{})
	busy, idle := pull(t, a, "q"), pull(t, b, "q")
	busy.Request(1)
	offer(t, a, "q", 0, 1)
	first := get(t, busy.Tasks(), "the first task") // the worker is busy with it from here on
	first.Ack()
	offer(t, a, "q", 1, 100)
	idle.Request(100)
	for range 100 {
		get(t, idle.Tasks(), "a task of the idle worker").Ack()
	}
	select {
	case d := <-busy.Tasks():
		t.Fatalf("the busy worker received %s", d.Task.Instance)
	default:
	}
	if n := a.Stats().Delivered; n != 1 {
		t.Fatalf("the busy worker received %d tasks", n)
	}
}

func TestPullerDeliversExactlyWhatIsRequested(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	offer(t, c, "q", 0, 60)
	for range 10 {
		p.Request(1)
		p.Request(2)
	}
	for range 30 {
		get(t, p.Tasks(), "a task").Ack()
	}
	eventually(t, "the acknowledgements", func() bool { return left(t, c) == 30 })
	if open, wanted, _ := p.requested(t); open != 0 || wanted != 0 {
		t.Fatalf("%d open, %d wanted", open, wanted)
	}
}

// requested returns how many tasks are requested and wanted, and the number of requests of the fetch. It waits for a fetch that is being
// replaced.
func (p *Puller) requested(t testing.TB) (open, wanted int, requests uint64) {
	t.Helper()
	eventually(t, "a fetch", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fetch == nil {
			return false
		}
		p.fetch.mu.Lock()
		defer p.fetch.mu.Unlock()
		open, wanted, requests = p.fetch.open, p.fetch.wanted, p.fetch.last
		return true
	})
	return open, wanted, requests
}

func TestFewPullRequestsAreOpenForAnyNumberOfSlots(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	begun := time.Now()
	p.Request(256)
	for i := range 300 { // one at a time, at a low rate
		offer(t, c, "q", i, 1)
		get(t, p.Tasks(), "a task").Ack()
		p.Request(1)
	}
	open, wanted, requests := p.requested(t)
	if took := time.Since(begun); requests > 16+4*uint64(took/time.Second) { // the open ones also end after one to two seconds
		t.Fatalf("%d requests for 300 tasks in %v", requests, took)
	}
	if open+wanted != 256 || open < 128 {
		t.Fatalf("%d open, %d wanted", open, wanted)
	}
}

func TestUnacknowledgedTaskIsRedelivered(t *testing.T) {
	c := newHarness(t).open(Options{AckWait: 300 * time.Millisecond})
	p := pull(t, c, "q")
	p.Request(2)
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "the task")
	get(t, p.Tasks(), "the task again").Ack()
	eventually(t, "an empty queue", func() bool { return left(t, c) == 0 })
}

func TestStopReturnsUnreceivedTasksAtOnce(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{AckWait: time.Hour})
	leaving := pull(t, c, "q")
	leaving.Request(10)
	offer(t, c, "q", 0, 10)
	get(t, leaving.Tasks(), "a task").Ack()
	leaving.Stop()
	leaving.Stop()
	staying := pull(t, c, "q")
	staying.Request(10)
	for range 9 {
		get(t, staying.Tasks(), "a returned task").Ack()
	}
	eventually(t, "an empty queue", func() bool { return left(t, c) == 0 })
}

func TestNakIsRedeliveredAtOnceAndTermNever(t *testing.T) {
	c := newHarness(t).open(Options{AckWait: time.Hour})
	p := pull(t, c, "q")
	p.Request(3)
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "the task").Nak()
	get(t, p.Tasks(), "the task again").Term()
	eventually(t, "an empty queue", func() bool { return left(t, c) == 0 })
}

func TestPoisonIsRemovedAndCountedAndTakesNoSlot(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	for _, nonsense := range []string{"", "x", "\xdd\xff\xff\xff\xff", string(Task{Instance: "i"}.Encode())} {
		_, err := c.nc.Request("pawl.default.task.q", []byte(nonsense), time.Minute)
		ok(t, err)
	}
	p.Request(1)
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "the task after the poison").Ack()
	eventually(t, "an empty queue", func() bool { return left(t, c) == 0 })
	if n := c.Stats().Poison; n != 4 {
		t.Fatalf("counted %d", n)
	}
}

func TestTaskOfANewerVersionStaysForANewerWorker(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	newer := task("q", 0).Encode()
	newer[1] = 2
	_, err := c.nc.Request("pawl.default.task.q", newer, time.Minute)
	ok(t, err)
	p.Request(1)
	eventually(t, "the rejection", func() bool { return c.Stats().Resets == 0 && p.requestedAgain(1) })
	if left(t, c) != 1 || c.Stats().Poison != 0 {
		t.Fatal("it was removed")
	}
}

// requestedAgain reports whether at least n requests were made after the first one; a rejection makes one.
func (p *Puller) requestedAgain(n uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetch.mu.Lock()
	defer p.fetch.mu.Unlock()
	return p.fetch.last >= 1+n
}

func TestLostConsumerOrStreamIsRepaired(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "q")
	p.Request(4)
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "a task").Ack() // so that the server has the request; otherwise only silence would reveal the loss
	ok(t, c.js.DeleteConsumer(soon(t), c.tasks.Name, "q"))
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "a task after the consumer was lost").Ack()

	ok(t, c.js.DeleteStream(soon(t), c.tasks.Name))
	offerUntilStored(t, c, "q")
	get(t, p.Tasks(), "a task after the stream was lost").Ack()
}

func TestOrchestratorWithoutWorkersRepairsTheTasksStream(t *testing.T) {
	c := newHarness(t).open(Options{})
	ok(t, c.js.DeleteStream(soon(t), c.tasks.Name))
	offerUntilStored(t, c, "q")
}

func TestPullerContinuesAfterAServerRestart(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	p := pull(t, c, "q")
	p.Request(5)
	offer(t, c, "q", 0, 1)
	get(t, p.Tasks(), "a task").Ack()
	for range 3 {
		handled := unanswered(t, c) // otherwise the handling may end the next publish, which is then stored twice
		s.stop()
		get(t, handled, "the loss of the connection")
		s.start()
		eventually(t, "the connection", c.nc.IsConnected)
		offerUntilStored(t, c, "q") // the stream was only in memory
		get(t, p.Tasks(), "a task after the restart").Ack()
		p.Request(1)
	}
	p.Stop()
	if n := p.wanted; n != 4 {
		t.Fatalf("%d wanted at the end, want 4", n)
	}
}

func TestBufferedTasksSurviveADisconnect(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{})
	p := pull(t, c, "q")
	p.Request(3)
	offer(t, c, "q", 0, 3)
	get(t, p.Tasks(), "the first task")
	eventually(t, "the other tasks to be buffered", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		sub := p.fetch.sub.sub
		n, _, err := sub.Pending() // the message in the callback counts until the next one is taken
		second, derr := sub.Delivered()
		return err == nil && derr == nil && second == 2 && n == 2
	})
	s.stop()
	get(t, p.Tasks(), "the second task")
	get(t, p.Tasks(), "the third task")
	s.start()
}

func TestLostPullRequestIsDetected(t *testing.T) {
	s := newHarness(t)
	nc := s.dial()
	_, err := nc.SubscribeSync("silent")
	ok(t, err)
	f, err := newFetch(nc, "silent", readExpires, readExpires, nil)
	ok(t, err)
	f.want(2)
	f.check(f.lastReceived.Add(f.silence() - time.Second))
	if f.reason() != nil {
		t.Fatal(f.reason())
	}
	f.check(time.Now().Add(f.silence() + time.Second))
	if !errors.Is(f.reason(), errSilence) || f.close(false) != 2 {
		t.Fatal(f.reason())
	}
	f, err = newFetch(nc, "silent", readExpires, readExpires, nil)
	ok(t, err)
	f.want(2)
	f.lastReceived = time.Now().Add(time.Hour) // other requests are answered
	f.check(time.Now().Add(readExpires + 2*fetchGrace))
	if !errors.Is(f.reason(), errLost) || f.close(false) != 2 {
		t.Fatal(f.reason())
	}
}

func TestPullRequestThatEndsIsRenewed(t *testing.T) {
	nc := newHarness(t).dial()
	requests, err := nc.SubscribeSync("next")
	ok(t, err)
	f, err := newFetch(nc, "next", readExpires, readExpires, nil)
	ok(t, err)
	defer f.close(false)
	f.want(5)
	first, err := requests.NextMsg(time.Minute)
	ok(t, err)
	// Like the server, with the status in the header that the client decodes.
	f.message(&nats.Msg{Subject: first.Reply, Header: nats.Header{"Status": {"408"}, "Nats-Pending-Messages": {"3"}}})
	second, err := requests.NextMsg(time.Minute)
	ok(t, err)
	if want := `"batch":3`; !strings.Contains(string(second.Data), want) {
		t.Fatalf("requested %s, want %s", second.Data, want)
	}
	f.message(&nats.Msg{Subject: second.Reply, Header: nats.Header{"Status": {"408"}, "Nats-Pending-Messages": {"99"}}})
	if f.reason() == nil {
		t.Fatal("an impossible remainder was accepted")
	}
}

// A worker requests less often from a queue without tasks, until one arrives.
func TestRequestsToIdleQueueLastLonger(t *testing.T) {
	s := newHarness(t)
	nc := s.dial()
	requests, err := nc.SubscribeSync("next")
	ok(t, err)
	f, err := newFetch(nc, "next", pullExpires, calmExpires, func(*nats.Msg, bool) {})
	ok(t, err)
	defer f.close(false)
	lasts := func() (string, time.Duration) {
		m, err := requests.NextMsg(time.Minute)
		ok(t, err)
		var body struct{ Expires time.Duration }
		ok(t, json.Unmarshal(m.Data, &body))
		return m.Reply, body.Expires
	}
	// Like the server, with the status in the header that the client decodes.
	ends := func(reply string) {
		f.message(&nats.Msg{Subject: reply, Header: nats.Header{"Status": {"408"}, "Nats-Pending-Messages": {"1"}}})
	}
	f.want(1)
	reply, took := lasts()
	if took > pullExpires {
		t.Errorf("the first request lasts %v", took)
	}
	f.mu.Lock()
	f.lastMessage = f.lastMessage.Add(-2 * calmAfter)
	f.mu.Unlock()
	ends(reply)
	if _, took = lasts(); took <= pullExpires || took > calmExpires {
		t.Errorf("after a time without tasks a request lasts %v", took)
	}
	f.message(&nats.Msg{Subject: "task"})
	f.want(1)
	if _, took = lasts(); took > pullExpires {
		t.Errorf("after a task a request lasts %v", took)
	}
}

// A single server that fails takes the connection with it; a server of a cluster does not.
func TestHeartbeatsAreRareOnlyOnASingleServer(t *testing.T) {
	for name, c := range map[string]struct {
		at   harness
		want time.Duration
	}{
		"on a single server":                 {harness{}, nearHeartbeat},
		"in a cluster":                       {harness{alone: true}, fetchHeartbeat},
		"through a server without JetStream": {harness{plain: true}, fetchHeartbeat},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.at
			s.t, s.dir, s.port = t, t.TempDir(), -1
			s.start()
			t.Cleanup(s.stop)
			if got := heartbeat(s.dial()); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Requests end together, so that the heartbeats of an idle process coincide.
func TestRequestsEndTogether(t *testing.T) {
	t.Parallel()
	for at := int64(0); at < int64(3*readExpires); at += int64(777 * time.Millisecond) {
		now := time.Unix(1790000000, at)
		span := aligned(now, readExpires)
		if end := now.Add(span); end.UnixNano()%int64(readExpires) != 0 || span < 2*fetchHeartbeat || span > readExpires+2*fetchHeartbeat {
			t.Fatalf("a request of %v ends after %v, at %v", now, span, end)
		}
		span = aligned(now, pullExpires)
		if end := now.Add(span); end.UnixNano()%int64(time.Second) != 0 || span <= pullExpires-time.Second || span > pullExpires {
			t.Fatalf("a short request of %v ends after %v, at %v", now, span, end)
		}
	}
	s := newHarness(t)
	requests, err := s.dial().SubscribeSync("next")
	ok(t, err)
	f, err := newFetch(s.open(Options{}).nc, "next", readExpires, readExpires, nil)
	ok(t, err)
	defer f.close(false)
	first := time.Now().Add(-time.Nanosecond)
	f.want(5)
	last := time.Now()
	m, err := requests.NextMsg(time.Minute)
	ok(t, err)
	var body struct {
		Expires   time.Duration
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}
	ok(t, json.Unmarshal(m.Data, &body))
	if body.Heartbeat <= 0 || body.Heartbeat > body.Expires/2 {
		t.Errorf("a request of %v has a heartbeat of %v, which the server rejects", body.Expires, body.Heartbeat)
	}
	if first.Add(body.Expires).Truncate(readExpires).Equal(last.Add(body.Expires).Truncate(readExpires)) {
		t.Errorf("requested between %v and %v, it ends after %v", first, last, body.Expires)
	}
}

// A request without an answer ends its fetch even if nothing else happens.
func TestConnChecksItsFetches(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	_, err := s.dial().SubscribeSync("silent")
	ok(t, err)
	c := s.open(Options{})
	f, err := newFetch(c.nc, "silent", readExpires, readExpires, nil)
	ok(t, err)
	defer f.close(false)
	f.want(1)
	f.mu.Lock()
	f.lastReceived = f.lastReceived.Add(-f.silence())
	f.mu.Unlock()
	c.fetches.add(f)
	get(t, f.done, "the end of the fetch")
	if !errors.Is(f.reason(), errSilence) {
		t.Error(f.reason())
	}
}

func TestOldestTaskReportsItsTime(t *testing.T) {
	c := newHarness(t).open(Options{})
	if _, ok, err := c.OldestTask(soon(t), "q"); ok || err != nil {
		t.Fatal(ok, err)
	}
	before := time.Now().Add(-time.Second)
	offer(t, c, "q", 0, 1)
	offer(t, c, "other", 0, 1)
	at, ok, err := c.OldestTask(soon(t), "q")
	if !ok || err != nil || at.Before(before) || at.After(time.Now().Add(time.Second)) {
		t.Fatal(at, ok, err)
	}
	p := pull(t, c, "q")
	p.Request(1)
	get(t, p.Tasks(), "the task").Ack()
	eventually(t, "an empty queue", func() bool { _, ok, err := c.OldestTask(soon(t), "q"); return !ok && err == nil })
}

func TestManyStartsAndStopsLoseNothing(t *testing.T) {
	s := newHarness(t)
	c := s.open(Options{AckWait: 2 * time.Second})
	const n = 800
	seen := make(map[string]bool)
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := make(chan struct{})
	for range 4 {
		w := s.open(Options{AckWait: 2 * time.Second})
		wg.Go(func() {
			for {
				p, err := w.Pull(soon(t), "q")
				if err != nil {
					t.Error(err)
					return
				}
				p.Request(16)
				for range 40 {
					select {
					case d := <-p.Tasks():
						d.Ack()
						p.Request(1)
						mu.Lock()
						if !seen[d.Task.Instance] { // otherwise it was delivered again, because the server has received its acknowledgement late
							seen[d.Task.Instance] = true
							if len(seen) == n {
								close(all)
							}
						}
						mu.Unlock()
					case <-all:
						p.Stop()
						return
					}
				}
				p.Stop()
			}
		})
	}
	offer(t, c, "q", 0, n)
	get(t, all, "all tasks")
	wg.Wait()
}

func TestForgedTaskIsDropped(t *testing.T) {
	c := newHarness(t).open(Options{})
	p := pull(t, c, "pay")
	genuine := task("pay", 1)
	for what, forge := range map[string]func(*Task){
		"payload":               func(t *Task) { t.Payload.Data = []byte("2") },
		"payload type":          func(t *Task) { t.Payload.Type = "text/plain" },
		"name":                  func(t *Task) { t.Name = "refund-card" },
		"instance":              func(t *Task) { t.Instance = "i-2" },
		"incarnation":           func(t *Task) { t.Origin.Seq++ },
		"execution":             func(t *Task) { t.Execution++ },
		"activity":              func(t *Task) { t.Activity++ },
		"queue":                 func(t *Task) { t.Queue = "other" },
		"attempt":               func(t *Task) { t.Attempt = 2 },
		"key of the call":       func(t *Task) { t.CallKey = "another" },
		"effect id":             func(t *Task) { t.Effect = "another" },
		"task of another queue": func(t *Task) { *t = task("other", 1) }, // but sent to this queue
	} {
		forged := genuine
		forge(&forged)
		before := c.Stats().Forged
		_, err := c.nc.Request(c.subj.task("pay"), forged.Encode(), time.Minute)
		ok(t, err)
		offer(t, c, "pay", 7, 1)
		p.Request(1)
		d := get(t, p.Tasks(), "the task after the forged one")
		d.Ack()
		if d.Task.Instance != "i-7" || c.Stats().Forged != before+1 {
			t.Errorf("forged %s: delivered %+v, %d counted", what, d.Task, c.Stats().Forged-before)
		}
	}
}
