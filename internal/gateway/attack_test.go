package gateway

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/client"
)

// Malformed HTTP requests, and requests for another host, reach no operation and do not affect the next request.
func TestHostileRequestsReachNoOperation(t *testing.T) {
	described := make(chan string, 1000)
	c := newClient(t, func(q request.Request) (request.Reply, error) {
		if d, is := q.(*request.Describe); is {
			described <- d.Instance
		}
		return nil, &request.Problem{Code: request.ProblemNotFound, Message: "nothing has this name"}
	})
	h := New(Config{Access: access.Policy{Loopback: true}, Client: func() *client.Client { return c }})
	l, err := Listen(t.Context(), ":0", "")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(h, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	addr := l.Addr().String()
	const path, host = "/api/v1/instances/i-1", "\r\nHost: localhost\r\n"
	const get = "GET " + path + " HTTP/1.1" + host
	for _, x := range []struct{ request, status string }{
		{get + "Host: evil.example\r\n\r\n", "400"},
		{"GET " + path + " HTTP/1.1\r\n\r\n", "400"},
		{"GET http://evil.example" + path + " HTTP/1.1" + host + "\r\n", "421"},
		{"GET " + path + " HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", "421"},
		{"GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1.evil.example:7295\r\n\r\n", "421"},
		{"GET " + path + " HTTP/1.1\r\nHost: 0.0.0.0\r\n\r\n", "421"},
		{"GET " + path + " HTTP/1.0\r\n\r\n", "421"},
		{"CONNECT localhost:443 HTTP/1.1" + host + "\r\n", "4"},
		{"CONNECT " + path + " HTTP/1.1" + host + "\r\n", "4"},
		{"TRACE " + path + " HTTP/1.1" + host + "\r\n", "405"},
		{"get " + path + " HTTP/1.1" + host + "\r\n", "405"},
		{"GET /api/v1/instances/../../../etc/passwd HTTP/1.1" + host + "\r\n", "307"},
		{"GET /assets/..%2f..%2fetc%2fpasswd HTTP/1.1" + host + "\r\n", "404"},
		{"GET /api/v1/instances/%2e%2e HTTP/1.1" + host + "\r\n", "400"},
		{"GET /api/v1/instances/i-1%2fhistory HTTP/1.1" + host + "\r\n", "400"},
		{"GET /api/v1/instances/i%001 HTTP/1.1" + host + "\r\n", "400"},
		{"GET /api/v1/instances/%ff HTTP/1.1" + host + "\r\n", "400"},
		{"GET /api/v1/instances/" + strings.Repeat("x", 8000) + " HTTP/1.1" + host + "\r\n", "400"},
		{"GET /api/v1/instances/%zz HTTP/1.1" + host + "\r\n", "400"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "400"},
		{get + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"},
		{get + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "501"},
		{get + "Content-Length: -1\r\n\r\n", "400"},
		{get + "X: a\x00b\r\n\r\n", "400"},
		{get + "X : a\r\n\r\n", "400"},
		{"POST " + path + "/cancel HTTP/1.1" + host + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n", "400"},
	} {
		if got := talk(t, addr, x.request); !strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(got, "HTTP/1.1 "), "HTTP/1.0 "), x.status) {
			t.Errorf("%.120q: %s, want %s", x.request, got, x.status)
		}
	}
	if len(described) > 0 {
		t.Errorf("an instance was read: %s", <-described)
	}
	if got := talk(t, addr, get+"\r\n"); !strings.Contains(got, " 404 ") || <-described != "i-1" {
		t.Errorf("the request after the hostile requests: %s", got)
	}
	if got := answers(t, addr, "HEAD "+path+" HTTP/1.1"+host+"Range: bytes=0-1\r\nConnection: close\r\n\r\n"); !strings.Contains(got, " 404 ") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("HEAD: %s", got)
	}
}

// answers sends raw bytes and returns everything that the server sends until it closes the connection.
func answers(t *testing.T, addr, request string) string {
	t.Helper()
	c := dialTCP(t, addr)
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if e, is := errors.AsType[net.Error](err); is && e.Timeout() {
		t.Errorf("the connection was not closed after %.60q", request)
	}
	return string(b)
}

func TestGzipRequiresThatTheClientAcceptsIt(t *testing.T) {
	for header, want := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "gzip; q=1": true, "": false, "gzip;q=0": false, "identity, gzip;q=0.000": false, "x-gzip": false, "br": false} {
		if got := acceptsGzip(http.Header{"Accept-Encoding": {header}}); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}
