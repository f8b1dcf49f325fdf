package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
)

// soon is the timeout for operations that normally take milliseconds.
const soon = time.Minute

func TestGuideShowsThisProgram(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../../docs/guide/processes.md"), 2, doctest.Read(t, "main.go", "../first/main.go"))
}

func TestProgramServesUntilItIsSignalled(t *testing.T) {
	stack, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Stop() })
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(t)))
	t.Setenv("PAWL_NATS", stack.NATSURL())
	t.Setenv("PAWL_REDIS", stack.RedisURL())
	t.Setenv("HTTP_ADDR", addr)

	ctx, stop := context.WithCancel(t.Context()) // cancelled as by a signal
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	poll.Until(t, soon, "the program is ready", func() bool {
		resp, err := http.Get("http://" + addr + "/readyz") //nolint:noctx // a test
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	c, err := client.New(t.Context(), natstest.Dial(t, stack.NATSURL()), client.Options{Namespace: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := client.Start(t.Context(), c, Welcome, "guest-1", "Ada")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Result(t.Context()); got != "Welcome, Ada" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
