package client

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owner simulates an orchestrator that owns every partition. It records what it reads, runs no code, and ends instances when the test
// calls finish.
type owner struct {
	t    *testing.T
	conn *transport.Conn
	subs []*transport.Subscription

	mu              sync.Mutex
	mute            bool // pushes no answers
	inputs          []message.Input
	seen            map[string]bool // message ids
	rows            map[string]*request.Description
	answers         map[string]request.Answer
	waiting         map[string][]string
	unknownRequests int                 // number of requests about unknown instances
	stale           int                 // number of Describe requests to answer as if the awaited input had not been applied
	watch           map[string][]string // reply subjects of the clients that wait for a custom status
	events          map[string][][]byte
	reports         []request.Report
	changed         chan struct{}
	limits          limits
	hang            func() // called before a request is answered; nil: nothing
	lists           []*request.List
	others          []int // partitions that another process owns
}

// startOwner starts a NATS server, an owner of 4 partitions and a client.
func startOwner(t *testing.T, o Options) (*owner, *Client) {
	t.Helper()
	srv := natstest.Start(t)
	conn, err := transport.Open(soon(t), natstest.Dial(t, srv.ClientURL()), transport.Options{Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	w := &owner{t: t, conn: conn, seen: map[string]bool{}, rows: map[string]*request.Description{}, answers: map[string]request.Answer{},
		waiting: map[string][]string{}, watch: map[string][]string{}, events: map[string][][]byte{}, changed: make(chan struct{}, 1)}
	for p := range conn.Partitions() {
		w.own(p)
	}
	if err := conn.NATS().Flush(); err != nil { // the server has received the subscriptions
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
func (w *owner) serve(p int) *transport.Subscription {
	s, err := request.Serve(w.conn, p, w.requested(p))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Stop)
	return s
}

func (w *owner) take(in message.Input) {
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
	if in.Kind == message.KindPurge {
		w.purge(in)
	}
	if in.Kind != message.KindStart {
		return
	}
	if w.rows[in.Instance] == nil {
		w.rows[in.Instance] = &request.Description{Summary: request.Summary{Instance: in.Instance, Orchestration: in.Name, Status: "running", Origin: in.Pos, Updated: in.Pos.Time, Execution: 1}}
	}
	if a, ok := w.answers[in.Instance]; ok {
		_ = request.Publish(w.conn, in.Reply, a)
	} else {
		w.waiting[in.Instance] = append(w.waiting[in.Instance], in.Reply)
	}
}

// purge removes the instance, unless it is stalled or running, and answers.
func (w *owner) purge(in message.Input) {
	row, a := w.rows[in.Instance], request.Answer{Instance: in.Instance, Status: request.StatusPurged}
	switch {
	case row == nil:
		a = request.Answer{Problem: &request.Problem{Code: request.ProblemNotFound, Message: "there is no instance " + in.Instance}}
	case row.Stalled != "":
		row.UnreadInputs++
		return
	case !Status(row.Status).Ended() && !in.Force:
		a = request.Answer{Problem: &request.Problem{Code: request.ProblemRefused, Message: "it is running"}}
	default:
		delete(w.rows, in.Instance)
	}
	if !w.mute {
		_ = request.Publish(w.conn, in.Reply, a)
	}
}

// input waits for the n-th input.
func (w *owner) input(n int) message.Input {
	w.t.Helper()
	for deadline := time.After(time.Minute); ; {
		w.mu.Lock()
		if len(w.inputs) > n {
			defer w.mu.Unlock()
			return w.inputs[n]
		}
		w.mu.Unlock()
		select {
		case <-w.changed:
		case <-deadline:
			w.t.Fatalf("input %d was not received", n)
		}
	}
}

// finish ends an instance and answers the waiting clients.
func (w *owner) finish(id string, a request.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.Instance = id
	w.answers[id] = a
	if row := w.rows[id]; row != nil {
		row.Status = a.Status
	}
	if !w.mute {
		for _, to := range w.waiting[id] {
			_ = request.Publish(w.conn, to, a)
		}
	}
	delete(w.waiting, id)
	w.show(id)
}

// setStatus sets a custom status and pushes it to the waiting clients.
func (w *owner) setStatus(id string, custom request.CustomStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[id].CustomStatus = &custom
	w.show(id)
}

func (w *owner) show(id string) {
	if w.mute || w.rows[id] == nil {
		return
	}
	for _, to := range w.watch[id] {
		_ = request.Publish(w.conn, to, request.Answer{Instance: id, Status: w.rows[id].Status, Custom: w.rows[id].CustomStatus})
	}
	delete(w.watch, id)
}

// watched waits until n clients wait for the custom status of an instance.
func (w *owner) watched(id string, n int) {
	w.t.Helper()
	poll.Until(w.t, time.Minute, "a watcher", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.watch[id]) >= n
	})
}

func (w *owner) status(row *request.Description, q *request.Status) request.Reply {
	if row.Status == "running" && (row.CustomStatus == nil || row.CustomStatus.Version <= q.After) {
		if q.ReplyTo != "" {
			w.watch[q.Instance] = append(w.watch[q.Instance], q.ReplyTo)
		}
		return new(request.Answered)
	}
	return &request.Answered{Answer: &request.Answer{Instance: q.Instance, Status: row.Status, Custom: row.CustomStatus}}
}

func (w *owner) requested(p int) func(context.Context, request.Request) (request.Reply, error) {
	return func(_ context.Context, q request.Request) (request.Reply, error) {
		w.mu.Lock()
		hang := w.hang
		w.mu.Unlock()
		if hang != nil {
			hang()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch q := q.(type) {
		case *request.List:
			where, err := filter.Parse(q.Where, time.Now())
			w.lists = append(w.lists, q)
			return w.listOf(p, q, func(s *request.Description) bool { return where.Match(&filter.Row{Status: s.Status}) }), err
		case *request.Count:
			n := len(w.list(p, "", len(w.rows), func(*request.Description) bool { return true }).Instances)
			return &request.Counts{Groups: []request.Group{{Value: "running", Count: uint64(n)}}}, nil
		case *request.Stalled:
			return w.list(p, q.Cursor, min(q.Limit, 3), func(s *request.Description) bool { return s.Stalled != "" }), nil
		case *request.Await:
			if err := w.unknown(q.Instance); err != nil {
				return nil, err
			}
			if a, ok := w.answers[q.Instance]; ok {
				return &request.Answered{Answer: &a}, nil
			}
			w.waiting[q.Instance] = append(w.waiting[q.Instance], q.ReplyTo)
			return new(request.Answered), nil
		case *request.Status:
			if err := w.unknown(q.Instance); err != nil {
				return nil, err
			}
			return w.status(w.rows[q.Instance], q), nil
		case *request.Describe:
			if q.Accepted > 0 && w.stale > 0 {
				w.stale--
				return nil, &request.Problem{Code: request.ProblemInternal, Message: "not applied yet"}
			}
			return w.rows[q.Instance], w.unknown(q.Instance)
		case *request.History:
			if err := w.unknown(q.Instance); err != nil || q.Execution > 1 {
				return &request.HistoryPage{Execution: q.Execution}, err
			}
			all := w.events[q.Instance][q.After:]
			n := min(len(all), 2) // small pages
			return &request.HistoryPage{Execution: 1, Events: all[:n], More: n < len(all), Reports: w.reports}, nil
		default:
			return w.limits.requested(p, q)
		}
	}
}

func (w *owner) unknown(id string) error {
	if w.rows[id] != nil {
		return nil
	}
	w.unknownRequests++
	return &request.Problem{Code: request.ProblemNotFound, Message: "unknown"}
}

// listOf answers a list request about the partitions that belong to the same process as p.
func (w *owner) listOf(p int, q *request.List, keep func(*request.Description) bool) *request.InstancePage {
	if len(q.Partitions) == 0 {
		return w.list(p, q.Cursor, min(q.Limit, 3), keep)
	}
	r := &request.InstancePage{}
	for _, of := range q.Partitions {
		if slices.Contains(w.others, of) != slices.Contains(w.others, p) {
			r.NotOwned = append(r.NotOwned, of)
			continue
		}
		r.Instances = append(r.Instances, w.list(of, q.Cursor, len(w.rows), keep).Instances...)
	}
	return page(r, q.Limit)
}

// page sorts the rows and truncates them to limit.
func page(r *request.InstancePage, limit int) *request.InstancePage {
	slices.SortFunc(r.Instances, func(x, y request.Summary) int {
		if newestFirst.precedes(&x, &y) {
			return -1
		}
		return 1
	})
	if limit < len(r.Instances) {
		last := r.Instances[limit-1]
		r.Cursor, r.Instances = request.ListCursor(last.StatusSince, last.Instance), r.Instances[:limit]
	}
	return r
}

func (w *owner) list(p int, cursor string, limit int, keep func(*request.Description) bool) *request.InstancePage {
	since, after, err := request.ParseListCursor(cursor)
	if err != nil {
		w.t.Error(err)
	}
	r := new(request.InstancePage)
	for id, row := range w.rows {
		follows := cursor == "" || newestFirst.precedes(&request.Summary{StatusSince: since, Instance: after}, &row.Summary)
		if w.conn.PartitionOf(id) == p && keep(row) && follows {
			r.Instances = append(r.Instances, row.Summary)
		}
	}
	return page(r, limit)
}
