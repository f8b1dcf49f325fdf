package promx

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/transport"
)

func TestCountersOfTwoRolesShareARegistry(t *testing.T) {
	conn, err := transport.Open(context.Background(), natstest.Dial(t, natstest.Start(t).ClientURL()), transport.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.PublishInput(context.Background(), message.OutInput{Instance: "a", Kind: message.KindCancel}); err != nil {
		t.Fatal(err)
	}

	reg := prometheus.NewPedanticRegistry()
	for _, role := range []string{"passing", "orchestrator", "worker"} {
		unregister, err := RegisterConn(reg, role, conn)
		if err != nil {
			t.Fatal(err)
		}
		if role == "passing" {
			unregister()
		}
	}
	if _, err := RegisterConn(reg, "worker", conn); err == nil {
		t.Fatal("a role can be registered twice")
	}
	if _, err := RegisterConn(nil, "x", conn); err != nil {
		t.Fatal("it is an error without a registry")
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 15 {
		t.Fatal(len(families), err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "pawl_queue_") || len(f.GetMetric()) != 2 {
			t.Errorf("%s has %d metrics", f.GetName(), len(f.GetMetric()))
		}
		if v := f.GetMetric()[0].GetCounter().GetValue(); (v == 1) != (f.GetName() == "pawl_queue_inputs_published_total") {
			t.Errorf("%s is %v", f.GetName(), v)
		}
	}
}
