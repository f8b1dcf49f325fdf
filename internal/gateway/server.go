package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
)

// Bounds of an HTTP server.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second // header and body
	writeTimeout      = 30 * time.Second // from the header to the end of the answer
	idleTimeout       = time.Minute      // between two requests on a connection
	maxHeaderBytes    = 16 << 10
	maxConnections    = 2048
)

// NewServer makes the server of a handler. It has a timeout for each phase of a request and bounds the size of headers
// (16 KiB, otherwise 431) and bodies (about 1 MiB: two payloads). log gets the server's own errors, at most one line a minute each.
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

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// holdConnection marks the connection of a request as one that carries a stream.
func holdConnection(ctx context.Context) {
	if c, bounded := ctx.Value(connectionKey{}).(*boundedConn); bounded {
		c.held.Store(true)
	}
}

// Listen listens at a TCP address. An address without a host, such as ":7295", is on the loopback interface; all interfaces
// are "0.0.0.0:7295". At most 2,048 connections are open at a time: one more closes the one that has been open the longest without
// a stream, so that clients which hold connections without a request do not keep out those which have one.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	return &boundedListener{Listener: l, limit: maxConnections}, nil
}

// boundedListener bounds the connections that are open.
type boundedListener struct {
	net.Listener

	limit int
	mu    sync.Mutex
	open  []*boundedConn // the oldest first
}

// Accept returns the next connection, and closes the oldest one if there are too many.
func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	accepted := &boundedConn{Conn: c, of: l}
	if oldest := l.add(accepted); oldest != nil {
		_ = oldest.Close() // its requests end with an error, which is the point
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
	return l.open[0] // all others carry streams: one of them resumes
}

type boundedConn struct {
	net.Conn

	of   *boundedListener
	held atomic.Bool // it carries a stream
}

// Close closes the connection and frees its place.
func (c *boundedConn) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.open, c); i >= 0 {
		c.of.open = slices.Delete(c.of.open, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// fixedMessage gives the lines of net/http one message, for lines are limited by message, and theirs name the peer.
type fixedMessage struct{ slog.Handler }

// Handle writes the record.
func (h fixedMessage) Handle(ctx context.Context, rec slog.Record) error {
	fixed := slog.NewRecord(rec.Time, rec.Level, "http server reported an error", rec.PC)
	fixed.AddAttrs(slog.String("error", rec.Message))
	if err := h.Handler.Handle(ctx, fixed); err != nil {
		return fmt.Errorf("gateway: log: %w", err)
	}
	return nil
}
