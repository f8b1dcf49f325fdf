package sealing_test

import (
	stdjson "encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// large is a payload that would be rejected without the object store.
var large = canary + strings.Repeat("0123456789abcdef", 64<<10)

// The test sends 1 MiB through every place where an orchestration has a payload. The second orchestrator replays the decisions of the
// first. Redis contains only references, and no file contains the payload in plain text.
func TestLargePayloadIsInTheObjectStore(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := key(t, "k1")
	c := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(k), Store: true})
	stop := s.run(c)
	cl, ctx := s.client(c), t.Context()
	if _, err := client.Start(ctx, s.client(nil), echoes, "refused", large); !errors.Is(err, pawl.ErrTooLarge) || !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("start without an object store: %v", err)
	}
	_, err := client.Start(ctx, cl, echoes, "large", large)
	s.must(err)
	if got, err := client.Update(ctx, cl, change, "large", large); err != nil || got != large {
		t.Errorf("update: %d bytes, %v", len(got), err)
	}
	poll.Until(t, time.Minute, "its child has ended", func() bool { // heavy code is not kept in memory
		d, err := cl.Describe(ctx, "large")
		return err == nil && d.Events == 8
	})
	stop()
	stop = s.run(c)
	s.must(client.Send(ctx, cl, step, "large", large))
	if got, err := client.Attach(s.client(codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(k)})), echoes, "large").Result(ctx); err != nil || got != large {
		t.Errorf("result: %d bytes, %v", len(got), err)
	}
	for _, by := range []*client.Client{cl, s.client(nil)} { // payloads in full, and as references
		x, err := api.ExportInstance(ctx, by, "large")
		s.must(err)
		export, err := stdjson.Marshal(x)
		s.must(err)
		if _, err := cl.Import(ctx, "imported", export); !errors.Is(err, client.ErrNoImport) || !errors.Is(err, sealing.ErrNotPortable) {
			t.Errorf("imported: %v", err)
		}
	}
	full, references := 0, 0
	for e, err := range cl.History(ctx, "large", 0) {
		s.must(err)
		if len(e.Raw) > 4<<10 {
			t.Errorf("%s has %d bytes in Redis", e.Type, len(e.Raw))
		}
		if in, ok := e.Event.(*history.Started); ok && strings.Contains(string(in.Payload.Data), canary) {
			full++
		}
	}
	for e, err := range cl.HistoryAfter(ctx, "large", 0, 0, 100) {
		s.must(err)
		if in, ok := e.Event.(*history.Started); ok && strings.HasPrefix(sealing.Describe(in.Payload), "in the object store") {
			references++
		}
	}
	for e, err := range cl.HistoryAfter(ctx, "large", 0, 0, 1) { // one event is loaded on request
		s.must(err)
		if in, ok := e.Event.(*history.Started); !ok || !strings.Contains(string(in.Payload.Data), canary) {
			t.Errorf("one event: %T", e.Event)
		}
		break
	}
	if full != 1 || references != 1 {
		t.Errorf("%d full starts in the history, %d references in its pages; want 1 of each", full, references)
	}
	stop()
	s.stop()
	s.sees("object.", "PAWL-default-OBJECTS")
	if found := s.files("canary"); len(found) > 0 {
		t.Errorf("the canary is in %q", found)
	}
	if strings.Contains(s.logs.String(), canary) {
		t.Error("the canary is in the logs")
	}
}

// The test removes the objects of an instance, like a NATS that has lost them.
func TestPayloadWhoseObjectIsLostStallsTheInstance(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := codec(t, pawlcodec.Options{Store: true})
	stop := s.run(c)
	defer stop()
	cl, ctx := s.client(c), t.Context()
	conn, err := transport.Join(ctx, s.nats, transport.Options{})
	s.must(err)
	defer conn.Close()
	_, err = client.Start(ctx, cl, echoes, "lost", large)
	s.must(err)
	poll.Until(t, time.Minute, "its child has ended", func() bool {
		d, err := cl.Describe(ctx, "lost")
		return err == nil && d.Events == 6
	})
	removed := 0
	s.must(conn.Objects(ctx, 0, func(page []transport.StoredObject) error {
		for _, o := range page {
			if owners := strings.Join(o.Owners, " "); owners != "lost" && owners != "lost-child lost" {
				t.Errorf("object %s of %q", o.Name, owners)
			}
			removed++
			s.must(conn.RemoveObject(ctx, o))
		}
		return nil
	}))
	if removed < 4 { // objects of the start, an activity, its result and a child
		t.Errorf("%d objects removed", removed)
	}
	names := referencesOf(t, cl, "lost")
	if lost, err := conn.LostObjects(ctx, names); err != nil || len(names) < 3 || len(lost) != len(names) {
		t.Errorf("%d of %d objects are lost, %v", len(lost), len(names), err)
	}
	s.must(client.Send(ctx, cl, step, "lost", "a small event"))
	poll.Until(t, time.Minute, "it is stalled", func() bool {
		d, err := cl.Describe(ctx, "lost")
		return err == nil && strings.HasPrefix(d.Stalled, "object-store") && strings.Contains(d.Stalled, "the object store does not have it; restore the stream, or rewind or terminate")
	})
}

// referencesOf returns the names of the objects that the stored events of an instance refer to.
func referencesOf(t *testing.T, cl *client.Client, id string) (names []string) {
	t.Helper()
	for e, err := range cl.HistoryAfter(t.Context(), id, 0, 0, 100) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, sealing.References(e.Event)...)
	}
	return names
}

var (
	echoes = pawl.NewOrchestration[string, string]("echoes")
	sub    = pawl.NewOrchestration[string, string]("sub")
)

// runEchoes passes its input through everything that carries a payload.
func runEchoes(ctx *pawl.Context, in string) (string, error) {
	if err := change.Handle(ctx, func(_ *pawl.Context, v string) (string, error) { return v, nil }); err != nil {
		return "", err
	}
	v, err := pawl.SideEffect(ctx, func() (string, error) { return in, nil })
	if err == nil {
		v, err = echo.Call(ctx, v)
	}
	if err == nil {
		v, err = sub.Call(ctx, v, pawl.ID(pawl.Instance(ctx).Instance+"-child"))
	}
	if err != nil {
		return "", err
	}
	if _, err := step.Receive(ctx); err != nil {
		return "", err
	}
	return v, nil
}

// A payload that compresses to a few bytes can be opened again, but not by the reader of a list, whose memory is limited.
func TestPayloadThatOpensToMoreThanInlineIsInTheStore(t *testing.T) {
	c := codec(t, pawlcodec.Options{Compress: true, Store: true})
	p := json(strings.Repeat("0", 4<<20))
	sealed, o := c.SealStored(sealing.ByClient, p)
	if o == nil {
		_, err := c.Open(sealed)
		t.Fatalf("%d bytes are sealed inline: %v", len(p.Data), err)
	}
	if n := sealing.OpenedSize(sealed); n < 4<<20 || len(o.Body) > 64<<10 {
		t.Errorf("the reference announces %d bytes, the object has %d", n, len(o.Body))
	}
	load := func(string, int, int) ([]byte, error) { return o.Body, nil }
	if opened, err := c.OpenWith(load, sealed); err != nil || !same(opened, p) {
		t.Errorf("opened %d bytes, %v", len(opened.Data), err)
	}
	if opened, err := c.OpenSmall(load, sealed); err == nil || !same(opened, sealed) {
		t.Errorf("opened %d bytes for a list, %v", len(opened.Data), err)
	}
}
