package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startTimeout = 10 * time.Second // for the first answer; loading an AOF is not limited
	stopTimeout  = 10 * time.Second // between SIGTERM and SIGKILL
)

var (
	errPortTaken = errors.New("the port is taken by another process")
	errEnded     = errors.New("ended unexpectedly")
)

// child is a Redis server process.
//
//	startChild ─▶ loading ─▶ ready ─▶ stop ─▶ exited
//	                 └──────────┴─(unexpectedly)▶ exited, err
//
// One goroutine starts the process and waits for its end, on a thread of its own, because the kernel's parent-death signal is tied to the
// thread and not to the process.
type child struct {
	cmd     *exec.Cmd
	log     *childLog
	started chan error
	exited  chan struct{}

	mu      sync.Mutex
	stopped bool // stop was called
}

func startChild(program string, args []string, o RedisOptions) (*child, error) {
	c := &child{log: &childLog{to: o.Logger}, started: make(chan error), exited: make(chan struct{})}
	c.cmd = exec.Command(program, args...) //nolint:noctx // stop ends it and waits
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = childAttr()
	if o.keep != nil {
		c.cmd.ExtraFiles = extraFiles(o.keep)
	}
	go c.run()
	if err := <-c.started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) run() {
	runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
	err := c.cmd.Start()
	c.started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // err uses the state of the process
	close(c.exited)
}

// ready waits until the server at addr answers and is the child.
func (c *child) ready(ctx context.Context, addr string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for {
		err := c.same(ctx, addr)
		if err == nil || errors.Is(err, errPortTaken) {
			return err
		}
		if strings.HasPrefix(err.Error(), "LOADING") {
			timeout.Reset(startTimeout)
		}
		select {
		case <-tick.C:
		case <-c.exited:
			return c.err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return fmt.Errorf("no answer within %s: %w", startTimeout, err)
		}
	}
}

// same returns errPortTaken unless the server that listens at the address is the child, according to its process id. It does not use a
// connection pool, which would log each refused connection.
func (c *child) same(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		PoolSize: 1, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 500 * time.Millisecond,
	})
	defer func() { _, _ = conn.Close(), rdb.Close() }()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	info, err := rdb.Info(ctx, "server").Result()
	if err == nil && !strings.Contains(info, "process_id:"+strconv.Itoa(c.cmd.Process.Pid)+"\r\n") {
		return errPortTaken
	}
	return err
}

// err returns how the process ended, or nil if it is running or was stopped.
func (c *child) err() error {
	select {
	case <-c.exited:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	last := c.log.last()
	if last == "" {
		return fmt.Errorf("%w (%s)", errEnded, c.cmd.ProcessState)
	}
	if strings.Contains(last, "Address already in use") {
		return fmt.Errorf("%w: %s", errPortTaken, last)
	}
	return fmt.Errorf("%w (%s): %s", errEnded, c.cmd.ProcessState, last)
}

// stop ends the process and waits for it. It is not an error if the process had ended before.
func (c *child) stop() error {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	if err := terminate(c.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("embedded: stop Redis: %w", err)
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timeout.C:
	}
	err := c.cmd.Process.Kill()
	<-c.exited
	return errors.Join(fmt.Errorf("embedded: Redis did not stop within %s and was killed", stopTimeout), err)
}

// childLog logs the lines of the child, and keeps its last warnings for an error.
type childLog struct {
	to *slog.Logger

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write logs the complete lines of b, which may end within a line.
func (l *childLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, b...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.add(strings.TrimSpace(string(line)))
		l.partial = rest
	}
}

// add logs a line, "pid:role date time level text", where the level # is a warning.
func (l *childLog) add(s string) {
	if s == "" {
		return
	}
	if strings.Contains(s, "Ready to accept connections") {
		l.lines = nil // warnings about its start do not explain its end
	}
	if _, text, ok := strings.Cut(s, " # "); ok {
		l.lines = append(l.lines, text)
		l.to.Debug("redis-server: "+text, "level", "warning")
		return
	}
	l.to.Debug("redis-server: " + s)
}

// last returns the last warnings on one line.
func (l *childLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(0, len(l.lines)-2)
	return strings.Join(l.lines[from:], "; ")
}
