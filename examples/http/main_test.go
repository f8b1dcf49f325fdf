package main

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

func TestServiceAndScriptRunAnOrderToItsEnd(t *testing.T) {
	var bindings []pawl.Binding
	for _, b := range examples.Orchestrations() {
		bindings = append(bindings, b)
	}
	for _, b := range examples.Activities() {
		bindings = append(bindings, b)
	}
	fleet := integration.Start(t, bindings...)
	h := gateway.New(gateway.Config{Client: func() *client.Client { return fleet.Client }, Access: access.Policy{Loopback: true}})
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	p := &api{base: srv.URL + "/api/v1"}
	if err := p.order(t.Context(), "order-1"); err != nil {
		t.Error(err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "orders.sh", "order-2")
	cmd.Env = append(cmd.Environ(), "PAWL_URL="+srv.URL)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"status":"completed"`) {
		t.Errorf("%v: %s", err, out)
	}
}
