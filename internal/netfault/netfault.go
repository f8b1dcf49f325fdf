// Package netfault injects network faults between a client and a server. It forwards TCP connections, and can cut them, hold all bytes,
// delay replies, or lose some of them.
package netfault

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy forwards every connection to one server. Its faults can be changed at any time, also for connections that are
// open; its methods are safe for concurrent use.
//
//	         Cut                    BlackHole
//	cut ◀────────── forwarding ──────────────▶ black hole
//	     ──────────▶     ▲  ◀──────────────────
//	         Heal        └ Listen     Heal
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	delay   atomic.Int64 // delay of each reply, ns
	every   atomic.Int64 // one of this number of replies is lost; 0: none
	replies atomic.Int64
	lost    atomic.Int64

	mu     sync.Mutex
	server string
	conns  map[net.Conn]struct{}
	cut    bool            // new connections are closed at once
	passes chan struct{}   // closed while bytes are forwarded; open in a black hole
	ctx    context.Context //nolint:containedctx // ends with the proxy
	end    context.CancelFunc
}

// Listen starts a proxy in front of a server (host:port) on a free port of 127.0.0.1. Close ends it.
func Listen(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: server, conns: make(map[net.Conn]struct{}), passes: make(chan struct{})}
	close(p.passes)
	p.ctx, p.end = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients connect to, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Delay delays each reply of the server; 0 ends that.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// LoseReplies loses one of every n replies and closes its connection. The server has executed the request. 0 loses none.
func (p *Proxy) LoseReplies(n int) { p.every.Store(int64(n)) }

// Lost returns the number of replies that LoseReplies has lost.
func (p *Proxy) Lost() int { return int(p.lost.Load()) }

// Cut closes every connection, and each new one at once, until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeConns()
}

// Retarget closes every connection and forwards new ones to another server (host:port), as after a fail-over.
func (p *Proxy) Retarget(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
	p.closeConns()
}

// BlackHole holds all bytes in both directions until Heal. Connections stay open, and new ones are accepted; neither side sees an error.
// The held bytes are delivered after Heal, as TCP retransmissions would be.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.passes:
		p.passes = make(chan struct{})
	default:
	}
}

// Heal ends Cut and BlackHole.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	select {
	case <-p.passes:
	default:
		close(p.passes)
	}
}

// Close closes every connection and the listener, and waits until no goroutine is left.
func (p *Proxy) Close() {
	p.end()
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) closeConns() {
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	var d net.Dialer
	p.mu.Lock()
	address := p.server
	p.mu.Unlock()
	server, err := d.DialContext(p.ctx, "tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	if p.cut || p.server != address {
		p.mu.Unlock()
		_, _ = client.Close(), server.Close()
		return
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	p.wg.Go(func() { p.pipe(server, client, func() bool { return false }) })
	p.pipe(client, server, p.loses)
}

// pipe copies until either side ends, and closes both.
func (p *Proxy) pipe(to, from net.Conn, loses func() bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.awaitPass()
			if loses() {
				err = io.ErrUnexpectedEOF
			} else if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			break
		}
	}
	p.awaitPass() // a black hole also holds the end of a connection
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// awaitPass waits until there is no black hole.
func (p *Proxy) awaitPass() {
	p.mu.Lock()
	passes := p.passes
	p.mu.Unlock()
	select {
	case <-passes:
	case <-p.ctx.Done():
	}
}

// loses waits for the delay of a reply, and reports whether the reply is lost.
func (p *Proxy) loses() bool {
	if d := time.Duration(p.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-p.ctx.Done():
		}
	}
	n, every := p.replies.Add(1), p.every.Load()
	if every == 0 || n%every != 0 {
		return false
	}
	p.lost.Add(1)
	return true
}
