package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owner plays the part of an orchestrator that owns every partition: it keeps what it
// reads, runs nothing, and ends instances when the test says so.
type owner struct {
	t    *testing.T
	conn *queue.Conn
	subs []*queue.Subscription

	mu      sync.Mutex
	mute    bool // tell nobody of an end or a status
	inputs  []queue.Input
	seen    map[string]bool // ids of messages
	rows    map[string]*queue.Described
	answers map[string]queue.Answer
	waiting map[string][]string
	vain    int                 // requests about nobody
	watch   map[string][]string // who waits for a custom status
	events  map[string][][]byte
	reports []queue.Report
	changed chan struct{}
	gates   gates
	hang    func() // called before a request is answered; nil: nothing
}

// stand starts a server, an owner of 4 partitions (unless absent) and a client.
func stand(t *testing.T, o Options) (*owner, *Client) {
	t.Helper()
	srv := natstest.Start(t)
	conn, err := queue.Open(soon(t), natstest.Dial(t, srv.ClientURL()), queue.Options{Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	w := &owner{t: t, conn: conn, seen: map[string]bool{}, rows: map[string]*queue.Described{}, answers: map[string]queue.Answer{},
		waiting: map[string][]string{}, watch: map[string][]string{}, events: map[string][][]byte{}, changed: make(chan struct{}, 1)}
	for p := range conn.Partitions() {
		w.own(p)
	}
	if err := conn.NATS().Flush(); err != nil { // the server knows who serves
		t.Fatal(err)
	}
	c, err := New(soon(t), natstest.Dial(t, srv.ClientURL()), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return w, c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (w *owner) own(p int) {
	r, err := w.conn.Attach(soon(w.t), p, history.Position{})
	if err != nil {
		w.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case batch := <-r.Batches():
				for _, in := range batch {
					w.take(in)
				}
			case <-r.Done():
				return
			}
		}
	})
	w.t.Cleanup(func() {
		r.Stop()
		wg.Wait()
	})
	w.subs = append(w.subs, w.serve(p))
}

// serve answers the requests to a partition.
func (w *owner) serve(p int) *queue.Subscription {
	asks, err := w.conn.ServeAsks(p, w.asked(p))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(asks.Stop)
	return asks
}

func (w *owner) take(in queue.Input) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.Problem != nil || in.ID != "" && w.seen[in.Instance+in.ID] {
		return
	}
	w.seen[in.Instance+in.ID] = true
	w.inputs = append(w.inputs, in)
	select {
	case w.changed <- struct{}{}:
	default:
	}
	if in.Kind == queue.KindPurge {
		w.purge(in)
	}
	if in.Kind != queue.KindStart {
		return
	}
	if w.rows[in.Instance] == nil {
		w.rows[in.Instance] = &queue.Described{Instance: in.Instance, Orchestration: in.Name, Status: "running", Born: in.Pos, Updated: in.Pos.Time, Execution: 1}
	}
	if a, ok := w.answers[in.Instance]; ok {
		_ = w.conn.Answer(in.Reply, a)
	} else {
		w.waiting[in.Instance] = append(w.waiting[in.Instance], in.Reply)
	}
}

// purge does what a purge asks for, unless the instance is stuck, and answers.
func (w *owner) purge(in queue.Input) {
	row, a := w.rows[in.Instance], queue.Answer{Instance: in.Instance, Status: queue.StatusPurged}
	switch {
	case row == nil:
		a = queue.Answer{Problem: &queue.Problem{Code: queue.ProblemNotFound, Message: "there is no instance " + in.Instance}}
	case row.Stuck != "":
		row.Inbox++
		return
	case !Status(row.Status).Ended() && !in.Force:
		a = queue.Answer{Problem: &queue.Problem{Code: queue.ProblemRefused, Message: "it is running"}}
	default:
		delete(w.rows, in.Instance)
	}
	if !w.mute {
		_ = w.conn.Answer(in.Reply, a)
	}
}

// input waits for the n-th input.
func (w *owner) input(n int) queue.Input {
	w.t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		w.mu.Lock()
		if len(w.inputs) > n {
			defer w.mu.Unlock()
			return w.inputs[n]
		}
		w.mu.Unlock()
		select {
		case <-w.changed:
		case <-deadline:
			w.t.Fatalf("waited in vain for input %d", n)
		}
	}
}

// finish ends an instance and tells whoever waits.
func (w *owner) finish(id string, a queue.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.Instance = id
	w.answers[id] = a
	if row := w.rows[id]; row != nil {
		row.Status = a.Status
	}
	if !w.mute {
		for _, to := range w.waiting[id] {
			_ = w.conn.Answer(to, a)
		}
	}
	delete(w.waiting, id)
	w.show(id)
}

// say sets a custom status and tells whoever waits.
func (w *owner) say(id string, custom queue.Custom) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[id].Custom = &custom
	w.show(id)
}

func (w *owner) show(id string) {
	if w.mute || w.rows[id] == nil {
		return
	}
	for _, to := range w.watch[id] {
		_ = w.conn.Answer(to, queue.Answer{Instance: id, Status: w.rows[id].Status, Custom: w.rows[id].Custom})
	}
	delete(w.watch, id)
}

// watched waits until n wait for the custom status of an instance.
func (w *owner) watched(id string, n int) {
	w.t.Helper()
	poll.Until(w.t, 20*time.Second, "a watcher", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.watch[id]) >= n
	})
}

func (w *owner) status(row *queue.Described, a queue.Ask) queue.Reply {
	if row.Status == "running" && (row.Custom == nil || row.Custom.Version <= a.After) {
		if a.ReplyTo != "" {
			w.watch[a.Instance] = append(w.watch[a.Instance], a.ReplyTo)
		}
		return queue.Reply{}
	}
	return queue.Reply{Answer: &queue.Answer{Instance: a.Instance, Status: row.Status, Custom: row.Custom}}
}

func (w *owner) asked(p int) func(context.Context, queue.Ask) queue.Reply {
	return func(_ context.Context, a queue.Ask) queue.Reply {
		w.mu.Lock()
		hang := w.hang
		w.mu.Unlock()
		if hang != nil {
			hang()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case a.Op == queue.OpList || a.Op == queue.OpStuck:
			return w.list(p, a)
		case a.Op >= queue.OpGates:
			return w.gates.asked(p, a)
		}
		row := w.rows[a.Instance]
		if row == nil {
			w.vain++
			return queue.Reply{Problem: &queue.Problem{Code: queue.ProblemNotFound, Message: "unknown"}}
		}
		switch a.Op {
		case queue.OpAwait:
			if ans, ok := w.answers[a.Instance]; ok {
				return queue.Reply{Answer: &ans}
			}
			w.waiting[a.Instance] = append(w.waiting[a.Instance], a.ReplyTo)
			return queue.Reply{}
		case queue.OpStatus:
			return w.status(row, a)
		case queue.OpDescribe:
			return queue.Reply{Described: row}
		case queue.OpHistory:
			if a.Execution > 1 {
				return queue.Reply{Execution: a.Execution}
			}
			all := w.events[a.Instance][a.After:]
			n := min(len(all), 2) // small pages
			return queue.Reply{Execution: 1, Events: all[:n], More: n < len(all), Reports: w.reports}
		default:
			return queue.Reply{Problem: &queue.Problem{Code: queue.ProblemBadAsk, Message: "?"}}
		}
	}
}

func (w *owner) list(p int, a queue.Ask) queue.Reply {
	var rows []queue.Described
	for id, row := range w.rows {
		if w.conn.PartitionOf(id) == p && (row.Status == a.Status || a.Op == queue.OpStuck && row.Stuck != "") {
			rows = append(rows, *row)
		}
	}
	slices.SortFunc(rows, func(x, y queue.Described) int { return cmp.Compare(y.Updated, x.Updated) })
	from := 0
	_, _ = fmt.Sscan(a.Cursor, &from)
	to := min(from+min(a.Limit, 3), len(rows))
	r := queue.Reply{Rows: rows[from:to]}
	if to < len(rows) {
		r.Cursor = fmt.Sprint(to)
	}
	return r
}
