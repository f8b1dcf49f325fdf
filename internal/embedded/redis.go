package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/alicebob/miniredis/v2"

	"github.com/pawlrun/pawl/internal/aof"
)

// RedisKind selects the Redis to run.
type RedisKind string

// The kinds.
const (
	RedisAuto   RedisKind = "auto"   // a server from PATH or, if there is none, miniredis
	RedisServer RedisKind = "server" // redis-server or valkey-server from PATH; an error if there is none
	RedisMemory RedisKind = "memory" // miniredis, in this process
)

// RedisOptions are the options of StartRedis.
type RedisOptions struct {
	Dir    string       // directory of the AOF, created if it is missing; required
	Port   int          // TCP port on 127.0.0.1; 0: a free port
	Kind   RedisKind    // empty: RedisAuto
	Logger *slog.Logger // nil: nothing is logged

	keep *os.File // passed to the child, so that it keeps the lock
}

// Redis is a Redis server, as a child process or in this one.
type Redis struct {
	child  *child               // nil: the server runs in this process
	memory *miniredis.Miniredis // nil: the server is a child
	addr   string
	done   chan struct{} // closed when the server in this process has ended
}

// StartRedis repairs the end of the AOF, which a kill may have truncated, starts a server, and returns when the server has loaded its
// data and answers PING. Redis syncs its AOF to the disk once a second (appendfsync everysec) and never evicts keys.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	program, err := findServer()
	switch o.Kind {
	case RedisMemory:
		return startMemory(o)
	case RedisAuto, "":
		if errors.Is(err, ErrNoRedisServer) {
			return startMemory(o)
		}
	case RedisServer:
	default:
		return nil, fmt.Errorf("embedded: unknown kind of Redis %q; there are %s, %s and %s", o.Kind, RedisAuto, RedisServer, RedisMemory)
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("embedded: make the directory for Redis: %w", err)
	}
	if err := aof.Repair(ctx, program, o.Dir); errors.Is(err, aof.ErrNoTool) {
		o.Logger.Warn("AOF of redis not checked", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("embedded: repair the AOF of Redis: %w", err)
	}
	return startServer(ctx, program, o)
}

// startServer starts a server. If no port is configured, it tries further free ports if another process takes the port in the meantime.
func startServer(ctx context.Context, program string, o RedisOptions) (*Redis, error) {
	var errs []error
	for range 5 {
		port := o.Port
		if port == 0 {
			var err error
			if port, err = freePort(ctx); err != nil {
				return nil, err
			}
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		c, err := startChild(program, arguments(o.Dir, port), o)
		if err == nil {
			if err = c.ready(ctx, addr); err == nil {
				return &Redis{child: c, addr: addr}, nil
			}
			err = errors.Join(err, c.stop())
		}
		if o.Port != 0 && errors.Is(err, errPortTaken) {
			return nil, &PortError{Server: "Redis", Port: o.Port}
		}
		errs = append(errs, fmt.Errorf("embedded: %s on %s: %w", program, addr, err))
		if o.Port != 0 || ctx.Err() != nil || !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func arguments(dir string, port int) []string {
	return []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
		"--maxmemory-policy", "noeviction", "--hash-max-ziplist-value", "256", // Redis 6.2 has only this name; see docs/operations/install.md
		"--daemonize", "no", "--logfile", "",
	}
}

func startMemory(o RedisOptions) (*Redis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, &PortError{Server: "Redis", Port: o.Port}
		}
		return nil, fmt.Errorf("embedded: Redis in memory on port %d: %w", o.Port, err)
	}
	return &Redis{memory: m, addr: m.Addr(), done: make(chan struct{})}, nil
}

// URL returns the URL for clients: redis://127.0.0.1:port.
func (r *Redis) URL() string { return "redis://" + r.addr }

// PID returns the process id of the child, or 0 if the server runs in this process.
func (r *Redis) PID() int {
	if r.child == nil {
		return 0
	}
	return r.child.cmd.Process.Pid
}

// Persistent reports whether the server keeps its state in files.
func (r *Redis) Persistent() bool { return r.child != nil }

// Done returns a channel that is closed when the server has ended, stopped or not.
func (r *Redis) Done() <-chan struct{} {
	if r.child == nil {
		return r.done
	}
	return r.child.exited
}

// Err returns the cause of an unexpected end of the server. It is nil while the server runs and after Stop.
func (r *Redis) Err() error {
	if r.child == nil {
		return nil
	}
	return r.child.err()
}

// Stop ends the server and waits until it has ended. It must be called once.
func (r *Redis) Stop() error {
	if r.child == nil {
		r.memory.Close()
		close(r.done)
		return nil
	}
	return r.child.stop()
}

// RedisInstalled reports whether RedisAuto starts a server, which keeps its state in files.
func RedisInstalled() bool {
	_, err := findServer()
	return err == nil
}

func findServer() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoRedisServer
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("embedded: find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener has no other address
	return port, l.Close()
}
