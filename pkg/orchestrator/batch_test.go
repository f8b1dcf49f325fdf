package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// keep receives events until the last one, and returns their number.
func keep(ctx *pawl.Context, _ string) (int, error) {
	for n := 0; ; n++ {
		word, err := proceed.Receive(ctx)
		if err != nil || word == "last" {
			return n, err
		}
	}
}

var keeper = pawl.NewOrchestration[string, int]("keeper")

// Each instance returns the number of events that it received before a last one, which is sent after the batch.
func TestBatchReachesEachInstanceOfItsFilterOnceWhenOwnersDie(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	const instances, others, pages = 60, 10, 3
	cfg := orchestrator.Config{OwnerTTL: time.Second}
	parcels := pawl.NewOrchestration[string, int]("parcels").Do(keep)
	owner := s.orchestrate(cfg, keeper.Do(keep), parcels)
	for i := range instances {
		s.start("keeper", fmt.Sprintf("k-%d", i), `""`)
	}
	for i := range others {
		s.start("parcels", fmt.Sprintf("p-%d", i), `""`)
	}
	op := s.operator()
	b := client.Batch{Verb: client.BatchEvent, Event: proceed.Name(), Data: []byte(`"go"`), Where: "orchestration = keeper", Rate: instances / pages}
	s.until("all run", func() bool {
		n, err := op.CountBatch(s.ctx(), b)
		return err == nil && n.Count == instances
	})
	run, err := op.StartBatch(s.ctx(), "b-1", b)
	if err != nil {
		t.Fatal(err)
	}
	died, stop := context.WithCancel(context.Background())
	stop()
	seen := uint64(0)
	for range pages - 1 { // the owner dies after each page, possibly before it has sent all messages of the page
		s.until("a page is sent", func() bool {
			st, _, err := op.DescribeBatch(s.ctx(), "b-1")
			if err != nil || st.Sent == seen && st.Sent < instances { // on a slow machine all pages may have been sent already
				return false
			}
			seen = st.Sent
			return true
		})
		_ = owner.Stop(died)
		owner = s.orchestrate(cfg, keeper.Do(keep), parcels)
	}
	st, err := run.Result(s.ctx())
	if err != nil || st.Sent != instances || st.Total != instances || st.Partitions != 8 {
		t.Errorf("%+v, %v", st, err)
	}
	for kind, n := range map[string]int{"k": instances, "p": others} {
		for i := range n {
			s.event(proceed.Name(), fmt.Sprintf("%s-%d", kind, i), `"last"`)
		}
	}
	for kind, want := range map[string]string{"k": "1", "p": "0"} {
		for i := range map[string]int{"k": instances, "p": others}[kind] {
			id := fmt.Sprintf("%s-%d", kind, i)
			if d := s.ended(id); string(d.Result.Data) != want {
				t.Errorf("%s received %s events, want %s", id, d.Result.Data, want)
			}
		}
	}
}

// A batch of each verb has the effect of the request, and names its requester.
func TestBatchPausesResumesTerminatesRetriesAndPurges(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, keeper.Do(keep))
	const n = 5
	for i := range n {
		s.start("keeper", fmt.Sprintf("k-%d", i), `""`)
	}
	op := s.operator()
	all := func(status string) func() bool {
		return func() bool {
			for i := range n {
				if s.describe(fmt.Sprintf("k-%d", i)).Status != status {
					return false
				}
			}
			return true
		}
	}
	s.until("all run", all("running"))
	for i, c := range []struct {
		batch  client.Batch
		status string
	}{
		{client.Batch{Verb: client.BatchPause, Reason: "stocktaking"}, "paused"},
		{client.Batch{Verb: client.BatchResume}, "running"},
		{client.Batch{Verb: client.BatchTerminate}, "cancelled"},
		{client.Batch{Verb: client.BatchRetry}, "running"},
		{client.Batch{Verb: client.BatchCancel}, "cancelled"},
		{client.Batch{Verb: client.BatchRewind, To: 1}, "running"},
		{client.Batch{Verb: client.BatchTerminate}, "cancelled"},
		{client.Batch{Verb: client.BatchRewind, To: 999}, "cancelled"}, // there is no such event
		{client.Batch{Verb: client.BatchPurge}, ""},
	} {
		c.batch.Where = "orchestration = keeper"
		run, err := op.StartBatch(s.ctx(), fmt.Sprintf("b-%d", i), c.batch)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := run.Result(s.ctx()); err != nil || st.Sent != n {
			t.Fatalf("%s: %+v, %v", c.batch.Verb, st, err)
		}
		if c.status == "" {
			break
		}
		s.until(c.status, all(c.status))
		if c.batch.To == 999 {
			s.until("the requests without an effect are listed", func() bool {
				refused := make(map[string]string)
				for note, err := range op.Refused(s.ctx()) {
					s.must(err)
					refused[note.Instance] = note.Reason
				}
				return len(refused) == n && strings.Contains(refused["k-0"], "rewind by ops: ")
			})
		}
		if d := s.describe("k-0"); c.status == "paused" && (d.PausedBy != "ops" || d.PausedFor != "stocktaking") {
			t.Errorf("%+v", d)
		}
	}
	for i := range n {
		s.until("it is purged", func() bool {
			_, err := op.Describe(s.ctx(), fmt.Sprintf("k-%d", i))
			return errors.Is(err, client.ErrNotFound)
		})
	}
}

func TestCancelledBatchSendsNoFurtherPage(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, keeper.Do(keep))
	const n = 60 // one per second
	for i := range n {
		s.start("keeper", fmt.Sprintf("k-%d", i), `""`)
	}
	op := s.operator()
	b := client.Batch{Verb: client.BatchCancel, Where: "orchestration = keeper", Rate: 1}
	s.until("all run", func() bool {
		c, err := op.CountBatch(s.ctx(), b)
		return err == nil && c.Count == n
	})
	run, err := op.StartBatch(s.ctx(), "b", b)
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Cancel(s.ctx(), "b", "a mistake"); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(s.ctx()); !isCancelled(err) {
		t.Errorf("%v", err)
	}
	if c, err := op.CountBatch(s.ctx(), b); err != nil || c.Count < n/2 {
		t.Errorf("%d instances are left, %v", c.Count, err)
	}
}

// The permission to start orchestrations does not include the permissions of operators.
func TestBatchIsStartedOnASubjectOfOperators(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, keeper.Do(keep))
	if err := s.nats.Publish(s.subject("to.b.start.pawl.batch"), []byte(`{"batch":{"verb":"cancel","all":true}}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.nats.Publish(s.subject("to.c.operate.batch"), []byte(`{"batch":{"verb":"cancel","all":true}}`)); err != nil {
		t.Fatal(err)
	}
	if d := s.ended("c"); d.Status != "completed" {
		t.Errorf("%+v", d)
	}
	if _, err := s.operator().Describe(s.ctx(), "b"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a start on the subject of clients: %v", err)
	}
	for r, want := range map[transport.Role]bool{transport.RoleClient: false, transport.RoleOperator: true} {
		p, _ := transport.PermissionsOf(s.ns, r, func(transport.Role) string { return "_INBOX" })
		has := false
		for _, subject := range p.Publish {
			has = has || subject == s.subject("to.*.operate.>")
		}
		if has != want {
			t.Errorf("%s: %v", r, p.Publish)
		}
	}
}

func isCancelled(err error) bool {
	_, is := errors.AsType[*pawl.Cancelled](err)
	return is
}
