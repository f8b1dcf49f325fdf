package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
)

// Without the slot, a worker would accumulate the results of further activities while the object store is unavailable.
func TestLargeResultKeepsItsSlotUntilItIsStored(t *testing.T) {
	t.Parallel()
	const slots, tasks = 2, 6
	o := newOwner(t)
	codec, err := pawlcodec.New(pawlcodec.Options{Store: true})
	o.must(err)
	stored := func() (n int) {
		o.must(o.conn.Objects(t.Context(), 0, func(page []transport.StoredObject) error {
			n += len(page)
			return nil
		}))
		return n
	}
	var available atomic.Bool // the object store exists
	var begun atomic.Int32
	book, reg, cfg := &logbook{}, prometheus.NewRegistry(), o.config()
	cfg.Codec, cfg.Concurrency, cfg.Metrics, cfg.Logger = codec, slots, reg, slog.New(slog.NewTextHandler(book, nil))
	o.start(cfg, pawl.NewActivity[pawl.None, string]("large").Do(func(context.Context, pawl.None) (string, error) {
		if n := int(begun.Add(1)); n > slots && (!available.Load() || stored() < n-slots) {
			t.Errorf("activity %d runs while %d results are not stored", n, n-1)
		}
		return strings.Repeat("0123456789abcdef", 8<<10), nil
	}))
	sent := make([]transport.Task, tasks)
	for i := range sent {
		sent[i] = o.send("large", nothing)
	}
	o.until("the object store has rejected one result per slot", func() bool {
		return len(book.lines("result not written to the object store, retrying")) == slots
	})
	if used, failed := counted(t, reg, "pawl_worker_slots", "used"), counted(t, reg, "pawl_queue_object_errors_total"); used != slots || failed < slots {
		t.Errorf("%v slots are used, %v errors are counted", used, failed)
	}
	o.must(o.conn.EnsureObjects(t.Context()))
	available.Store(true)
	for _, task := range sent {
		if c := o.completed(task); sealing.Name(c.Result) == "" {
			t.Errorf("%d bytes are inline", len(c.Result.Data))
		}
	}
	if n := counted(t, reg, "pawl_queue_objects_stored_total"); n != tasks || stored() != tasks {
		t.Errorf("%v objects are counted, %d stored", n, stored())
	}
}
