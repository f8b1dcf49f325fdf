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
	// ErrPortTaken matches a *PortError.
	ErrPortTaken = errors.New("embedded: the port is taken by another process")
)

// PortError is a server whose port is taken.
type PortError struct {
	Server string // "NATS" or "Redis"
	Port   int
}

// Error names both.
func (e *PortError) Error() string {
	return fmt.Sprintf("embedded: port %d, wanted for %s, is taken by another process", e.Port, e.Server)
}

// Is makes it match ErrPortTaken.
func (e *PortError) Is(target error) bool { return target == ErrPortTaken }

// Options of Start. The zero value is a stack in a temporary directory.
type Options struct {
	// Dir holds what the servers keep; made if it is missing. Empty: a temporary
	// directory, which Stop removes.
	Dir string
	// Logger gets the servers' warnings and errors, and their notices at debug level. Nil: discarded.
	Logger *slog.Logger
	// NATSPort and RedisPort are TCP ports on 127.0.0.1. Zero: a free one.
	NATSPort, RedisPort int
	// Redis chooses the server. Empty: RedisAuto.
	Redis RedisKind
}

// Stack is both servers, running. Its methods may be called from several goroutines.
type Stack struct {
	nats    *NATS
	options RedisOptions  // of the server that runs
	ended   chan struct{} // closed when Redis has ended and is not restarted
	end     sync.Once     // of ended
	watched sync.WaitGroup
	mu      sync.Mutex // guards redis
	redis   *Redis
	lock    *lock
	temp    string // removed at the end; empty if the directory is the caller's
	warning string

	stop    sync.Once
	stopErr error
}

// Start starts both servers and returns when they answer. It gives up when ctx is
// done, and leaves nothing running then. It fails with ErrInUse if another process
// has the directory, and with a *PortError if one has a port.
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

// NATSURL is where clients find NATS: nats://127.0.0.1:port.
func (s *Stack) NATSURL() string { return s.nats.URL() }

// run makes a Redis server the one of the stack.
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

// RestartRedis kills the Redis server and starts it again at its port with what it has written, as a fault. It must not be called
// beside Stop or itself. A server in memory is not restarted: ErrNoRedisServer. If it does not start, Done is closed.
func (s *Stack) RestartRedis(ctx context.Context) error {
	r := s.current()
	if r.child == nil {
		return ErrNoRedisServer
	}
	again := &Redis{addr: r.addr, child: r.child}
	s.mu.Lock()
	s.redis = again // the end of the old one is not that of the stack
	s.mu.Unlock()
	_ = r.child.cmd.Process.Kill() // it may have ended
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

// RedisURL is where clients find Redis: redis://127.0.0.1:port.
func (s *Stack) RedisURL() string { return s.current().URL() }

// RedisPID is the process id of the Redis server; zero if it runs in this process.
func (s *Stack) RedisPID() int { return s.current().PID() }

// Persistent reports whether what the servers hold is there again after a Stop and a
// Start with the same directory.
func (s *Stack) Persistent() bool { return s.temp == "" && s.current().Persistent() }

// Warning is one sentence that the user should read, or empty.
func (s *Stack) Warning() string { return s.warning }

// Done is closed when the Redis server has ended, asked or not, except for a restart.
func (s *Stack) Done() <-chan struct{} { return s.ended }

// Err returns why the Redis server ended by itself. It is nil while it runs and after Stop.
func (s *Stack) Err() error { return s.current().Err() }

// Stop ends the servers, waits for them, and removes a temporary directory. It may be
// called more than once, and gives the same answer.
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
