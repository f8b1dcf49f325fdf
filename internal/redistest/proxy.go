package redistest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy stands between a client and a server and does to the replies what networks do. What
// the client has sent is carried out in any case: that is the point of it. Its settings may
// be changed at any time; it ends with the test.
type Proxy struct {
	Addr string

	delay   atomic.Int64 // ns, of each reply
	every   atomic.Int64 // of so many replies one is lost, and its connection with it; 0: none
	replies atomic.Int64
	lost    atomic.Int64

	listener net.Listener
	server   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// NewProxy starts a proxy in front of a server.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed with the test
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, server: s.Addr, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Client gives a client that speaks through the proxy; it is closed with the test.
func (p *Proxy) Client(t testing.TB) redis.UniversalClient {
	t.Helper()
	return client(t, p.Addr)
}

// Delay lets every reply wait.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// LoseEvery loses one of n replies, and the connection that it came on; 0 loses none.
func (p *Proxy) LoseEvery(n int) { p.every.Store(int64(n)) }

// Lost is how many replies have been lost.
func (p *Proxy) Lost() int { return int(p.lost.Load()) }

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.server) //nolint:noctx // on this machine
		if err != nil {
			_ = c.Close()
			continue
		}
		if !p.enter(c, s) {
			return
		}
		p.wg.Go(func() { p.pipe(s, c, func() bool { return false }) })
		p.wg.Go(func() { p.pipe(c, s, p.loses) })
	}
}

func (p *Proxy) enter(cs ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		if p.ended {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.ended
}

// loses waits as long as a reply takes and tells whether it is lost.
func (p *Proxy) loses() bool {
	if d := time.Duration(p.delay.Load()); d > 0 {
		time.Sleep(d)
	}
	n, every := p.replies.Add(1), p.every.Load()
	if every == 0 || n%every != 0 {
		return false
	}
	p.lost.Add(1)
	return true
}

func (p *Proxy) pipe(to, from net.Conn, loses func() bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !loses() {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		} else if err == nil {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
