package transport

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/pkg/history"
)

// openThroughProxy opens a Conn through a proxy, with the library's default of two minutes between pings.
func (s *harness) openThroughProxy(p **netfault.Proxy) *Conn {
	s.t.Helper()
	u, err := url.Parse(s.srv.ClientURL())
	ok(s.t, err)
	proxy, err := netfault.Listen(u.Host)
	ok(s.t, err)
	s.t.Cleanup(proxy.Close)
	nc, err := nats.Connect("nats://"+proxy.Addr(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	ok(s.t, err)
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	s.t.Cleanup(func() { proxy.Heal(); nc.Close(); <-closed })
	c, err := Open(soon(s.t), nc, Options{Partitions: 4})
	ok(s.t, err)
	s.t.Cleanup(c.Close)
	*p = proxy
	return c
}

func TestSilenceIsMeasuredWhateverTheConnectionReports(t *testing.T) {
	for name, reads := range map[string]bool{"with readers": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHarness(t)
			var proxy *netfault.Proxy
			c := s.openThroughProxy(&proxy)
			ctx, stop := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { c.ProbeInputs(ctx) })
			t.Cleanup(func() { stop(); wg.Wait() })
			if reads {
				r, err := c.Attach(soon(t), 0, history.Position{})
				ok(t, err)
				t.Cleanup(r.Stop)
			}
			eventually(t, "steady contact", func() bool {
				silent, steady := c.InputsSilence()
				return silent < contactGap && steady > 2*time.Second
			})
			proxy.BlackHole()
			eventually(t, "silence", func() bool {
				silent, _ := c.InputsSilence()
				return silent > contactGap+time.Second
			})
			if !c.nc.IsConnected() {
				t.Error("the connection has reported the disconnect")
			}
			healed := time.Now()
			proxy.Heal()
			eventually(t, "contact again, which has begun since", func() bool {
				silent, steady := c.InputsSilence()
				return silent < contactGap && steady <= time.Since(healed)
			})
		})
	}
}

// A stream without a leader answers with an error, which does not count as contact: nothing can be read.
func TestOnlyAReplyOfTheStreamIsContact(t *testing.T) {
	c := newHarness(t).open(Options{})
	ok(t, c.js.DeleteStream(soon(t), c.inputs.Name))
	before := c.contact.last.Load()
	c.probe(soon(t))
	if c.contact.last.Load() != before {
		t.Error("contact with a deleted stream")
	}
}
