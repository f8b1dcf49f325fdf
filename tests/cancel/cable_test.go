package cancel

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

func replace(form, activity string) string { return strings.Replace(form, "%", activity, 1) }

// cable is a connection to a server that can be cut: then nothing arrives any more, in
// either direction. (redistest.Proxy loses replies; what was sent arrives.)
type cable struct {
	addr   string
	server string
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func newCable(t *testing.T, server string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{addr: l.Addr().String(), server: server, l: l}
	c.wg.Go(c.accept)
	t.Cleanup(func() { c.cut(); c.wg.Wait() })
	return c
}

func (c *cable) cut() {
	_ = c.l.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func (c *cable) accept() {
	for {
		near, err := c.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, near, far)
		gone := c.gone
		c.mu.Unlock()
		if gone {
			_, _ = near.Close(), far.Close()
			return
		}
		c.wg.Go(func() { c.pipe(near, far) })
		c.wg.Go(func() { c.pipe(far, near) })
	}
}

func (c *cable) pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}
