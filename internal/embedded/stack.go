package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Errors of Start.
var (
	ErrInUse         = errors.New("embedded: the directory is in use")
	ErrNoRedisServer = errors.New("embedded: neither redis-server nor valkey-server is on PATH")
	// ErrPortTaken is matched by *PortError.
	ErrPortTaken = errors.New("embedded: the port is taken by another process")
)

// PortError reports that the port of a server is taken.
type PortError struct {
	Server string // "NATS" or "Redis"
	Port   int
}

// Error returns the port and the server.
func (e *PortError) Error() string {
	return fmt.Sprintf("embedded: port %d for %s is in use by another process", e.Port, e.Server)
}

// Is reports whether target is ErrPortTaken.
func (e *PortError) Is(target error) bool { return target == ErrPortTaken }

// Options are the options of Start. The zero value starts a stack in a temporary directory.
type Options struct {
	// Dir is the data directory of the servers, created if it is missing. Empty: a temporary directory, which Stop removes.
	Dir string
	// Logger receives the warnings and errors of the servers, and their notices at debug level. Nil: nothing is logged.
	Logger *slog.Logger
	// NATSPort and RedisPort are TCP ports on 127.0.0.1. 0: a free port.
	NATSPort, RedisPort int
	// Redis selects the server. Empty: RedisAuto.
	Redis RedisKind
}

// Stack is a running pair of servers. Its methods are safe for concurrent use, except RestartRedis.
type Stack struct {
	nats    *NATS
	options RedisOptions  // of the current server
	ended   chan struct{} // closed when Redis has ended and is not restarted
	end     sync.Once     // closes ended
	watched sync.WaitGroup
	mu      sync.Mutex // guards redis
	redis   *Redis
	lock    *lock
	temp    string // temporary directory that Stop removes; empty: none
	warning string

	stop    sync.Once
	stopErr error
}

// Start starts both servers and returns when they answer. If it fails or ctx ends, it leaves nothing running. The error matches ErrInUse
// if another process uses the directory, and is a *PortError if a port is taken.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	s := &Stack{ended: make(chan struct{})}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dir := o.Dir
	if dir == "" {
		if s.temp, err = os.MkdirTemp("", "pawl-"); err != nil {
			return nil, fmt.Errorf("embedded: make a temporary directory: %w", err)
		}
		dir = s.temp
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("embedded: make the data directory: %w", err)
	}
	if s.lock, err = acquire(ctx, filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	s.nats, err = StartNATS(ctx, NATSOptions{Dir: filepath.Join(dir, "nats"), Port: o.NATSPort, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	s.options = RedisOptions{Dir: filepath.Join(dir, "redis"), Port: o.RedisPort, Kind: o.Redis, Logger: o.Logger, keep: s.lock.file}
	r, err := StartRedis(ctx, s.options)
	if err != nil {
		return nil, err
	}
	s.run(r)
	if !s.redis.Persistent() {
		s.warning = "redis runs in memory, state is not kept"
		o.Logger.Warn(s.warning)
	}
	return s, nil
}

// NATSURL returns the URL of NATS for clients: nats://127.0.0.1:port.
func (s *Stack) NATSURL() string { return s.nats.URL() }

// run sets the current Redis server, and closes ended when that server ends.
func (s *Stack) run(r *Redis) {
	s.mu.Lock()
	s.redis = r
	s.mu.Unlock()
	s.watched.Go(func() {
		<-r.Done()
		if s.current() == r {
			s.end.Do(func() { close(s.ended) })
		}
	})
}

func (s *Stack) current() *Redis {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redis
}

// RestartRedis kills the Redis server and starts it again at its port with its data, to simulate a fault. It must not be called
// concurrently with itself or Stop. For a server in this process the error is ErrNoRedisServer. If the server does not start again, Done
// is closed.
func (s *Stack) RestartRedis(ctx context.Context) error {
	r := s.current()
	if r.child == nil {
		return ErrNoRedisServer
	}
	again := &Redis{addr: r.addr, child: r.child}
	s.mu.Lock()
	s.redis = again // the end of the old server does not end the stack
	s.mu.Unlock()
	_ = r.child.cmd.Process.Kill() // it may have ended already
	<-r.Done()
	_, port, _ := net.SplitHostPort(r.addr)
	s.options.Port, _ = strconv.Atoi(port)
	next, err := StartRedis(ctx, s.options)
	if err != nil {
		s.end.Do(func() { close(s.ended) })
		return err
	}
	s.run(next)
	return nil
}

// RedisURL returns the URL of Redis for clients: redis://127.0.0.1:port.
func (s *Stack) RedisURL() string { return s.current().URL() }

// RedisPID returns the process id of the Redis server, or 0 if it runs in this process.
func (s *Stack) RedisPID() int { return s.current().PID() }

// Persistent reports whether the data of the servers is kept for the next Start with the same directory.
func (s *Stack) Persistent() bool { return s.temp == "" && s.current().Persistent() }

// Warning returns a warning for the user, or "".
func (s *Stack) Warning() string { return s.warning }

// Done returns a channel that is closed when the Redis server has ended, stopped or not, and is not being restarted.
func (s *Stack) Done() <-chan struct{} { return s.ended }

// Err returns the cause of an unexpected end of the Redis server. It is nil while the server runs and after Stop.
func (s *Stack) Err() error { return s.current().Err() }

// Stop ends the servers, waits for them, and removes a temporary directory. It may be called more than once, and returns the same error
// each time.
func (s *Stack) Stop() error {
	s.stop.Do(func() {
		var errs []error
		if r := s.current(); r != nil {
			errs = append(errs, r.Stop())
			s.watched.Wait()
		}
		if s.nats != nil {
			s.nats.Stop()
		}
		if s.temp != "" {
			errs = append(errs, os.RemoveAll(s.temp))
		}
		if s.lock != nil {
			errs = append(errs, s.lock.release())
		}
		s.stopErr = errors.Join(errs...)
	})
	return s.stopErr
}
