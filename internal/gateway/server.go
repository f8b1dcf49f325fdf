package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
)

// Limits of the HTTP server.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second // headers and body
	writeTimeout      = 30 * time.Second // from the end of the headers to the end of the response
	idleTimeout       = time.Minute      // between two requests on a connection
	maxHeaderBytes    = 16 << 10
	maxConnections    = 2048
)

// NewServer returns an HTTP server for a handler. It has a timeout for each phase of a request and limits the size of
// headers (16 KiB, otherwise 431) and of bodies (about 1 MiB, which is two payloads). The errors of net/http itself are
// written to log, each at most once a minute.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		Handler:           http.MaxBytesHandler(h, maxBody),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(fixedMessage{outage.New(log).Logger().Handler()}, slog.LevelWarn),
	}
	if streams, open := h.(interface{ Close() }); open {
		s.RegisterOnShutdown(streams.Close) // Shutdown waits for them
	}
	return s
}

// connectionKey is the context key of the connection of a request.
type connectionKey struct{}

// holdConnection marks the connection of a request as carrying an event stream.
func holdConnection(ctx context.Context) {
	if c, bounded := ctx.Value(connectionKey{}).(*boundedConn); bounded {
		c.held.Store(true)
	}
}

// Listen listens on a TCP address. An address without a host, such as ":7295", is on the loopback interface; "0.0.0.0:7295"
// is on all interfaces. At most 2,048 connections are open at a time. A further connection closes the oldest one that
// carries no stream, so that idle connections cannot lock out clients with requests. The error of an address in use names the setting that
// contains the address, such as a flag, unless that is empty.
func Listen(ctx context.Context, addr, setting string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) && setting != "" {
		err = fmt.Errorf("%w: %s chooses another address", err, setting)
	}
	if err != nil {
		return nil, err
	}
	return &boundedListener{Listener: l, limit: maxConnections}, nil
}

// boundedListener limits the number of open connections.
type boundedListener struct {
	net.Listener

	limit int
	mu    sync.Mutex
	open  []*boundedConn // oldest first
}

// Accept returns the next connection, and closes another one if there are too many.
func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	accepted := &boundedConn{Conn: c, of: l}
	if oldest := l.add(accepted); oldest != nil {
		_ = oldest.Close() // its requests end with an error, as intended
	}
	return accepted, nil
}

func (l *boundedListener) add(c *boundedConn) (oldest *boundedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) <= l.limit {
		return nil
	}
	if i := slices.IndexFunc(l.open, func(c *boundedConn) bool { return !c.held.Load() }); i < len(l.open)-1 {
		return l.open[max(i, 0)]
	}
	return l.open[0] // all others carry streams: the oldest stream is closed, and its client resumes it
}

type boundedConn struct {
	net.Conn

	of   *boundedListener
	held atomic.Bool // carries a stream
}

// Close closes the connection and removes it from the listener.
func (c *boundedConn) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.open, c); i >= 0 {
		c.of.open = slices.Delete(c.of.open, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// fixedMessage gives all log lines of net/http the same message. The lines are rate-limited by message, and net/http
// includes the address of the peer in its own.
type fixedMessage struct{ slog.Handler }

// Handle writes the record with the fixed message, and the original message as an attribute.
func (h fixedMessage) Handle(ctx context.Context, rec slog.Record) error {
	fixed := slog.NewRecord(rec.Time, rec.Level, "http server reported an error", rec.PC)
	fixed.AddAttrs(slog.String("error", rec.Message))
	if err := h.Handler.Handle(ctx, fixed); err != nil {
		return fmt.Errorf("gateway: log: %w", err)
	}
	return nil
}
