package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// NATSOptions are the options of StartNATS.
type NATSOptions struct {
	Dir    string       // directory of the JetStream store; required
	Port   int          // TCP port on 127.0.0.1; 0: a free port
	Logger *slog.Logger // nil: nothing is logged
}

// reservable is the sum of the sizes, in bytes, that streams may reserve. By default it is three quarters of the free disk space at the
// start, so that a machine with 1.3 GB free could not create INPUTS (1 GiB), although INPUTS needs only the size of what waits in it.
// Nothing is allocated for a reservation.
const reservable = 1 << 40

// NATS is a nats-server in this process.
type NATS struct{ server *server.Server }

// StartNATS starts nats-server with JetStream, and returns when it accepts connections.
func StartNATS(ctx context.Context, o NATSOptions) (*NATS, error) {
	port := o.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	log := &natsLog{to: o.Logger}
	if log.to == nil {
		log.to = slog.New(slog.DiscardHandler)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "pawl-embedded",
		Host:       "127.0.0.1",
		Port:       port,
		JetStream:  true,
		StoreDir:   o.Dir,
		NoSigs:     true, // the program handles signals

		JetStreamMaxStore: reservable,
	})
	if err != nil {
		return nil, fmt.Errorf("embedded: nats-server: %w", err)
	}
	s.SetLoggerV2(log, false, false, false)
	n := &NATS{server: s}
	s.Start()
	for !s.ReadyForConnections(100 * time.Millisecond) {
		if err := errors.Join(context.Cause(ctx), log.fatal()); err != nil {
			n.Stop()
			if strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) { // the server's error has no type
				return nil, &PortError{Server: "NATS", Port: o.Port}
			}
			return nil, fmt.Errorf("embedded: nats-server on port %d with its store in %s: %w", o.Port, o.Dir, err)
		}
	}
	return n, nil
}

// URL returns the URL for clients: nats://127.0.0.1:port.
func (n *NATS) URL() string { return n.server.ClientURL() }

// Stop ends the server and waits until it has ended.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// natsLog writes the log of nats-server to slog. Notices are logged at debug level.
type natsLog struct {
	to *slog.Logger

	mu   sync.Mutex
	last error // the last fatal error
}

func (l *natsLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Noticef logs at debug level. It implements server.Logger, as do the other five.
func (l *natsLog) Noticef(f string, v ...any) { l.to.Debug("nats-server: " + fmt.Sprintf(f, v...)) }

// Warnf logs at the same level.
func (l *natsLog) Warnf(f string, v ...any) { l.to.Warn("nats-server: " + fmt.Sprintf(f, v...)) }

// Errorf logs at the same level.
func (l *natsLog) Errorf(f string, v ...any) { l.to.Error("nats-server: " + fmt.Sprintf(f, v...)) }

// Fatalf records the error for StartNATS; the server does not end the process.
func (l *natsLog) Fatalf(f string, v ...any) {
	err := fmt.Errorf(f, v...)
	l.to.Debug("nats-server: " + err.Error())
	l.mu.Lock()
	l.last = err
	l.mu.Unlock()
}

// Debugf logs at debug level; the server's debug log is off.
func (l *natsLog) Debugf(f string, v ...any) { l.Noticef(f, v...) }

// Tracef logs at debug level; the server's trace log is off.
func (l *natsLog) Tracef(f string, v ...any) { l.Noticef(f, v...) }
