package main

import (
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/transport"

	"github.com/nats-io/nats.go"
)

// A refused input is listed with its reason. Dropping its note does not affect the running instance with the same id.
func TestRefusedInputsAreListedAndDropped(t *testing.T) {
	at := naps(t)
	must(t, at("start", "nap", "n-1")...)
	nc, err := nats.Connect(at()[1])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, id := range []string{"n-1", "n-2"} {
		m := nats.NewMsg("pawl.default.to." + id + ".event.wake")
		m.Header.Set(transport.HeaderVersion, "99")
		if _, err := nc.RequestMsgWithContext(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var out string
	eventually(t, "both are listed", func() bool {
		_, out, _ = command(t, at("refused")...)
		return strings.Contains(out, "n-1") && strings.Contains(out, "n-2")
	})
	if !strings.Contains(out, "input 2 cannot be used") || !strings.Contains(out, "99") {
		t.Errorf("%s", out)
	}
	if out := must(t, at("refused", "--drop", "n-1", "--json")...); !strings.Contains(out, `"instance":"n-1"`) || strings.Contains(out, "n-2") {
		t.Errorf("%s", out)
	}
	if code, _, errs := command(t, at("refused", "--drop", "n-1")...); code != 1 || !strings.Contains(errs, "no input of n-1 is listed as refused") {
		t.Errorf("code %d, %s", code, errs)
	}
	if out := must(t, at("get", "n-1")...); !strings.Contains(out, "running") {
		t.Errorf("%s", out)
	}
	if out := must(t, at("refused", "--drop-all")...); out != "1 note removed\n" {
		t.Errorf("%q", out)
	}
	if out := must(t, at("refused", "--json")...); out != "" {
		t.Errorf("%s", out)
	}
}
