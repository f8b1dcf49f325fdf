package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fewConnections is the maximum number of connections of the listener in a test.
const fewConnections = 64

// listenAndServe serves a handler that reads whole requests, and returns the address.
func listenAndServe(t *testing.T, set func(*http.Server)) string {
	t.Helper()
	l, err := Listen(t.Context(), ":0", "")
	if err != nil {
		t.Fatal(err)
	}
	if b, is := l.(*boundedListener); is {
		b.limit = fewConnections
	}
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}), slog.New(slog.DiscardHandler))
	if set != nil {
		set(s)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// talk sends raw bytes and returns the first line of the response.
func talk(t *testing.T, addr, request string) string {
	t.Helper()
	c := dialTCP(t, addr)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, request) }() // the server may stop reading
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Trap: the server listens on all interfaces by default.
func TestAddressWithoutHostIsOnLoopback(t *testing.T) {
	host, _, err := net.SplitHostPort(listenAndServe(t, nil))
	if err != nil || host != "127.0.0.1" {
		t.Errorf("listens on %s, %v", host, err)
	}
	if _, err := Listen(t.Context(), "7295", ""); err == nil {
		t.Error("an address without a port was accepted")
	}
}

func TestHeadersAndBodiesAreBounded(t *testing.T) {
	addr := listenAndServe(t, nil)
	for name, c := range map[string]struct{ request, want string }{
		"small":            {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200"},
		"header of 1 MiB":  {"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
		"many headers":     {"GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n", "431"},
		"body of 2 MiB":    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2097152\r\n\r\n" + strings.Repeat("x", 2<<20), "413"},
		"length of 1 TiB":  {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1099511627776\r\n\r\n" + strings.Repeat("x", 2<<20), "413"},
		"endless chunking": {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n", 400), "413"},
	} {
		if got := talk(t, addr, c.request); !strings.Contains(got, " "+c.want+" ") {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

// A slow client never completes its header. The server drops it, and continues to serve others while more such clients than
// the maximum number of connections stay connected.
func TestSlowClientsDoNotBlockOthers(t *testing.T) {
	addr := listenAndServe(t, func(s *http.Server) { s.ReadHeaderTimeout = 100 * time.Millisecond })
	slow := dialTCP(t, addr)
	_, _ = io.WriteString(slow, "GET / HTTP/1.1\r\nX: ")
	_ = slow.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("the slow client's connection was not closed: %v", err)
	}

	addr = listenAndServe(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour })
	for range fewConnections + 50 {
		_, _ = io.WriteString(dialTCP(t, addr), "GET / HTTP/1.1\r\nX: ")
	}
	for range 3 {
		if got := talk(t, addr, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.Contains(got, " 200 ") {
			t.Errorf("with too many slow clients: %q", got)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bounded, _ := l.(*boundedListener)
	bounded.limit = fewConnections
	var accepted []net.Conn
	for range fewConnections + 10 {
		dialTCP(t, l.Addr().String())
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if accepted = append(accepted, c); len(accepted) == 1 {
			holdConnection(context.WithValue(t.Context(), connectionKey{}, c))
		}
	}
	if n := len(bounded.open); n != fewConnections {
		t.Errorf("%d connections are open, want %d", n, fewConnections)
	}
	if _, err := accepted[1].Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the oldest connection is still open: %v", err)
	}
	if _, err := accepted[0].Write([]byte("x")); err != nil {
		t.Errorf("a stream was closed before idle connections: %v", err)
	}
	for _, c := range accepted {
		_ = c.Close()
	}
	if n := len(bounded.open); n != 0 {
		t.Errorf("%d connections are counted after all were closed", n)
	}
}

// Trap: one log line for each bad message.
func TestErrorsOfTheServerAreLimitedInTheLog(t *testing.T) {
	var lines int
	log := slog.New(countLines{slog.DiscardHandler, &lines})
	s := NewServer(http.NotFoundHandler(), log)
	for i := range 100 {
		s.ErrorLog.Printf("http: peer %d misbehaves", i)
	}
	if lines != 1 {
		t.Errorf("%d lines, want 1", lines)
	}
}

type countLines struct {
	slog.Handler
	n *int
}

func (c countLines) Enabled(context.Context, slog.Level) bool { return true }
func (c countLines) Handle(context.Context, slog.Record) error {
	*c.n++
	return nil
}
