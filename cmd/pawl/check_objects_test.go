package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
)

// TestCheckFindsLostAndOrphanedObjects creates three objects: a history refers to the first, an inbox to the second, and the third is orphaned.
// Then it deletes the first.
func TestCheckFindsLostAndOrphanedObjects(t *testing.T) {
	codec, err := pawlcodec.New(pawlcodec.Options{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	grow, wake := pawl.NewOrchestration[pawl.None, string]("grow"), pawl.NewEvent[string]("wake")
	nats, redis := harnessAt(t, fleets{codec: codec, orchestrations: []pawl.OrchestrationBinding{grow.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		v, err := pawl.SideEffect(ctx, func() (string, error) { return strings.Repeat("large ", 20_000), nil })
		if err != nil {
			return "", err
		}
		_, err = wake.Receive(ctx)
		return v, err
	})}})
	nc, err := settings.NATS{NATSURL: settings.URL(nats)}.OpenNATS(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	conn, err := transport.Join(t.Context(), nc, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stored := func() (all []transport.StoredObject) {
		t.Helper()
		if err := conn.Objects(t.Context(), 0, func(page []transport.StoredObject) error {
			all = append(all, page...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	check := []string{"check", "--objects", "--orphan-age", "0s", "--redis", redis, "--nats", nats}
	must(t, "start", "grow", "g-1", "--nats", nats)
	eventually(t, "its object is stored, and the turn committed", func() bool {
		return len(stored()) == 1 && strings.Contains(must(t, "get", "g-1", "--nats", nats), "wake")
	})
	must(t, "send", "--store-payloads", "--nats", nats, "g-2", "wake", `"`+strings.Repeat("early ", 20_000)+`"`) // the instance has no start
	eventually(t, "the event is in an inbox", func() bool {
		code, out, _ := command(t, check...)
		return code == 0 && len(stored()) == 2 && strings.Contains(out, "1 unread input") && strings.Contains(out, "0 findings")
	})

	orphan := sealing.Object{Name: sealing.ByClient + "." + strings.Repeat("0", 32), Owners: []string{"g-1", "absent"}, Body: []byte("of a start that was never sent")}
	if err := conn.PutObject(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	code, out, _ := command(t, check...)
	if wantText(t, out, "object "+orphan.Name+" is orphaned: nothing refers to it", "1 finding"); code != 1 {
		t.Errorf("code %d\n%s", code, out)
	}
	if out := must(t, "check", "--objects", "--redis", redis, "--nats", nats); !strings.Contains(out, "0 findings") {
		t.Errorf("a new object is a finding:\n%s", out)
	}
	for _, o := range stored() {
		if o.Name != orphan.Name && o.Owners[0] == "g-1" {
			if err := conn.RemoveObject(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	code, out, _ = command(t, append(check, "--json")...)
	if wantText(t, out, `"objects":1,"lost_objects":["`+sealing.ByOrchestrator+".", `"orphaned_objects":["`+orphan.Name+`"]`); code != 1 {
		t.Errorf("code %d\n%s", code, out)
	}
}
