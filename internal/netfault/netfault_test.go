package netfault_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/netfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that returns every byte, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func proxy(t *testing.T) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

type line struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *netfault.Proxy) line {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return line{c, bufio.NewReader(c)}
}

func (l line) echo(within time.Duration) error {
	if _, err := l.Write([]byte("hello\n")); err != nil {
		return err
	}
	_ = l.SetReadDeadline(time.Now().Add(within)) // the bytes are sent even if the test is paused for so long
	_, err := l.r.ReadString('\n')
	return err
}

const long = 10 * time.Second

func TestCutClosesConnectionsUntilHeal(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	if err := c.echo(long); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := c.echo(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("open connection after Cut: %v", err)
	}
	if err := dial(t, p).echo(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("new connection after Cut: %v", err)
	}
	p.Heal()
	if err := dial(t, p).echo(long); err != nil {
		t.Errorf("after Heal: %v", err)
	}
}

func TestBlackHoleHoldsBytesAndHealDeliversThem(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	if err := c.echo(long); err != nil {
		t.Fatal(err)
	}
	p.BlackHole()
	if err := c.echo(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("open connection in a black hole: %v", err)
	}
	if err := dial(t, p).echo(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("new connection in a black hole: %v", err)
	}
	p.Heal()
	_ = c.SetDeadline(time.Now().Add(long))
	if s, err := c.r.ReadString('\n'); err != nil || s != "hello\n" {
		t.Errorf("after Heal: %q, %v", s, err)
	}
}

func TestEveryNthReplyIsLostWithItsConnection(t *testing.T) {
	p := proxy(t)
	p.LoseReplies(2)
	c := dial(t, p)
	if err := c.echo(long); err != nil {
		t.Fatal(err)
	}
	if err := c.echo(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("second reply: %v", err)
	}
	if p.Lost() != 1 {
		t.Errorf("%d replies lost, want 1", p.Lost())
	}
}
