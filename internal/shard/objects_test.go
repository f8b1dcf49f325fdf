package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
)

// objectHarness is an object store with a collector, and without owners of partitions.
type objectHarness struct {
	t     *testing.T
	conn  *transport.Conn
	js    jetstream.JetStream
	rdb   redis.UniversalClient
	space redisx.Space
	objectCollector
}

func newObjectHarness(t *testing.T) *objectHarness {
	t.Helper()
	w := &objectHarness{t: t, space: redisx.NewSpace("default")}
	_, w.rdb = redistest.MiniClient(t)
	nc := natstest.Dial(t, natstest.Start(t).ClientURL())
	js, err := jetstream.New(nc)
	w.ok(err)
	w.js = js
	conn, err := transport.Open(t.Context(), nc, transport.Options{Partitions: 2})
	w.ok(err)
	t.Cleanup(func() { conn.Close() })
	w.ok(conn.EnsureObjects(t.Context()))
	met, err := NewMetrics(prometheus.NewRegistry(), "default", 2, nil)
	w.ok(err)
	codec, err := sealing.New(sealing.Options{Store: true})
	w.ok(err)
	run := redisx.NewRunner(w.rdb)
	t.Cleanup(run.Close)
	w.conn = conn
	w.objectCollector = objectCollector{Process: &Process{cfg: Config{Codec: codec}, met: met}}
	w.Process.conn, w.Process.store = conn, store.New(run, w.space)
	return w
}

func (w *objectHarness) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func objectName(of string) string { return sealing.ByOrchestrator + "." + strings.Repeat(of, 32) }

func (w *objectHarness) put(of string, owners ...string) error {
	return w.conn.PutObject(w.t.Context(), sealing.Object{Name: objectName(of), Owners: owners, Body: make([]byte, 600<<10)})
}

func (w *objectHarness) listed() (all []transport.StoredObject) {
	w.t.Helper()
	w.ok(w.conn.Objects(w.t.Context(), 0, func(page []transport.StoredObject) error {
		all = append(all, page...)
		return nil
	}))
	return all
}

// round collects once and compares what is stored: "a" is an object, "a!" a marked object, and "-a!" a mark without an object.
func (w *objectHarness) round(want string) {
	w.t.Helper()
	w.ok(w.collect(w.t.Context()))
	marks, err := w.conn.Marked(w.t.Context())
	w.ok(err)
	var all []string
	for _, o := range w.listed() {
		s := o.Name[len(o.Name)-1:]
		if _, marked := marks[o.Name]; marked {
			s += "!"
			delete(marks, o.Name)
		}
		all = append(all, s)
	}
	for name := range marks {
		all = append(all, "-"+name[len(name)-1:]+"!")
	}
	slices.Sort(all)
	if got := fmt.Sprint(all); got != want {
		w.t.Fatalf("%s, want %s", got, want)
	}
}

// TestObjectIsRemovedWhenNoInstanceRefersToIt: an object without a reference, after a crash or the removal of its instances, is removed by the second
// round that finds no reference; an object that an instance refers to is kept. A partition that does not apply its inputs retains its objects and
// delays no others; a partition that lags but applies its inputs retains none.
func TestObjectIsRemovedWhenNoInstanceRefersToIt(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	here := "here"
	for w.conn.PartitionOf(here) == w.conn.PartitionOf("gone") {
		here += "e"
	}
	for of, all := range map[string][]string{"a": {here}, "b": {"gone"}, "c": {"gone", here}, "d": {here}, "e": {here}} {
		for range 2 { // a turn that is decided again writes the same objects
			w.ok(w.put(of, all...))
		}
	}
	inbox := w.space.Part(w.conn.PartitionOf(here)).Inbox(here)
	w.ok(w.rdb.RPush(t.Context(), inbox, "x"+objectName("a")+"y", objectName("c"), objectName("d")).Err())
	publish := func(id string) {
		t.Helper()
		_, err := w.conn.PublishInput(t.Context(), message.OutInput{ID: id, Instance: "gone", Kind: message.KindEvent, Name: "e"})
		w.ok(err)
	}
	publish("m1") // no reader yet
	w.round("[a b! c d e!]")
	publish("m2")
	w.round("[-e! a b! c d]")
	w.ok(w.rdb.LRem(t.Context(), inbox, 1, objectName("d")).Err())
	w.round("[a b! c d!]")
	w.ok(w.rdb.RPush(t.Context(), inbox, objectName("d")).Err()) // as after a rollback of Redis
	publish("m3")
	w.ok(w.rdb.HSet(t.Context(), w.space.Part(w.conn.PartitionOf("gone")).Owner(), "seq", 2, "time", time.Now().UnixNano()).Err())
	w.round("[-b! a c d]")
	w.ok(w.rdb.Del(t.Context(), inbox).Err())
	w.round("[a! c! d!]")
	w.ok(w.rdb.HSet(t.Context(), w.space.Part(w.conn.PartitionOf("gone")).Owner(), "seq", 3, "time", time.Now().UnixNano()).Err())
	w.round("[-a! -c! -d!]")
	w.round("[]")
}

// TestObjectThatIsWrittenAgainIsNotRemoved: a turn that is decided again, long after the first time, writes objects that are about to be removed.
func TestObjectThatIsWrittenAgainIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	w.ok(w.put("a", "i"))
	w.round("[a!]")
	if err := w.put("a", "i"); !errors.Is(err, transport.ErrRemoving) {
		t.Errorf("written while it is marked: %v", err)
	}
	before := w.listed()
	w.round("[-a!]")
	w.ok(w.put("a", "i"))
	for _, o := range before { // as a paused owner of partition 0 does when it resumes
		w.ok(w.conn.RemoveObject(t.Context(), o))
	}
	_, err := w.conn.GetObject(t.Context(), objectName("a"), 600<<10, transport.FollowerLag, 0)
	w.ok(err)
	w.round("[a]") // the mark belonged to the previous object
	w.ok(w.put("a", "i"))
}

// TestObjectInSmallPartsIsRefused: otherwise a foreign writer could make a partition read 64 million parts.
func TestObjectInSmallPartsIsRefused(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	for n := range 3 {
		_, err := w.js.Publish(t.Context(), fmt.Sprintf("pawl.default.object.%s.%d", objectName("a"), n), []byte("x"))
		w.ok(err)
	}
	if body, err := w.conn.GetObject(t.Context(), objectName("a"), 3, 0, 0); !errors.Is(err, transport.ErrNoObject) {
		t.Errorf("read %q, %v", body, err)
	}
}

// TestObjectOfManyOwnersIsRefused: a round reads each owner.
func TestObjectOfManyOwnersIsRefused(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	if err := w.put("a", make([]string, 100)...); err == nil || len(w.listed()) > 0 {
		t.Errorf("stored for 100 owners: %v", err)
	}
}

// TestMissingObjectsDoNotDelayAPartition: its turner waits once for a lagging server, not for each of a hundred objects, which would take 50 s.
func TestMissingObjectsDoNotDelayAPartition(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	for range 100 {
		if _, err := w.loadObject(t.Context(), objectName("a"), 1); !errors.Is(err, transport.ErrNoObject) || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
	}
	w.ok(w.put("a", "i"))
	_, err := w.loadObject(t.Context(), objectName("a"), 600<<10)
	w.ok(err)
}

// TestStoreThatDoesNotAnswerIsNotCalledAgainAtOnce: after a transfer that timed out, the next ones fail at once. A transfer that was cancelled
// with the shard does not count as a timeout.
func TestStoreThatDoesNotAnswerIsNotCalledAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	w.ok(w.put("a", "i"))
	life, end := context.WithCancel(t.Context())
	s := &shell{process: w.Process, life: life, turns: &turner{}}
	read := func() error {
		_, err := s.loadObject(objectName("a"), 600<<10, 600<<10)
		return err
	}
	write := func() error {
		return s.storeObjects("i", []sealing.Object{{Name: objectName("b"), Owners: []string{"i"}, Body: []byte("b")}})
	}
	w.ok(read())
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	if _, err := w.loadObject(late, objectName("a"), 600<<10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read with an expired deadline: %v", err)
	}
	if err := read(); !errors.Is(err, errUnanswered) {
		t.Errorf("a read soon after a timeout: %v", err)
	}
	if err := write(); !errors.Is(err, errUnanswered) || !errors.Is(err, replay.ErrObject) {
		t.Errorf("a write soon after a timeout: %v", err)
	}
	w.unanswered.set(time.Now().Add(-unansweredFor))
	w.ok(read())
	w.ok(write())
	end()
	if err := read(); !errors.Is(err, context.Canceled) {
		t.Errorf("a read of a shard that has ended: %v", err)
	}
	if err := write(); !errors.Is(err, context.Canceled) || w.unanswered.within(unansweredFor) {
		t.Errorf("a write of a shard that has ended: %v", err)
	}
}

// TestMarksOutliveARollback: young objects are skipped, an object is removed when its mark is old, and the mark is kept for the same time after the removal.
func TestMarksOutliveARollback(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	w.ok(w.put("a", "i"))
	w.age, w.markedFor = time.Hour, time.Hour
	w.round("[a]")
	w.age = 0
	w.round("[a!]")
	w.round("[a!]")
	w.markedFor = 0
	w.round("[-a!]")
	w.markedFor = time.Hour
	w.round("[-a!]")
	w.markedFor = 0
	w.round("[]")
}

// TestSizeOfTheObjectStoreIsMeasured: only while the process owns partition 0.
func TestSizeOfTheObjectStoreIsMeasured(t *testing.T) {
	t.Parallel()
	w := newObjectHarness(t)
	w.ok(w.put("a", "i"))
	reg := prometheus.NewPedanticRegistry()
	w.ok(reg.Register(w.met.objectsBytes))
	size := func() float64 {
		families, err := reg.Gather()
		w.ok(err)
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	w.sampleObjects(t.Context(), true)
	if got := size(); got < 600<<10 {
		t.Errorf("%v bytes, with an object of 600 KiB", got)
	}
	w.sampleObjects(t.Context(), false)
	if got := size(); got != 0 {
		t.Errorf("%v bytes, measured by another owner", got)
	}
}
