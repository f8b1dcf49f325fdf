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
	startTimeout = 10 * time.Second // for the first answer; loading an AOF may take as long as it needs
	stopTimeout  = 10 * time.Second // between SIGTERM and SIGKILL
)

var (
	errPortTaken = errors.New("the port is taken by another process")
	errEnded     = errors.New("ended by itself")
)

// child is a Redis server process.
//
//	startChild ─▶ loading ─▶ ready ─▶ stop ─▶ exited
//	                 └──────────┴─(by itself)──▶ exited, err
//
// One goroutine starts the process and waits for its end on a thread of its own: the
// kernel's parent-death signal goes by the thread, not by the process.
type child struct {
	cmd     *exec.Cmd
	log     *childLog
	started chan error
	exited  chan struct{}

	mu    sync.Mutex
	asked bool // stop was called
}

func startChild(program string, args []string, o RedisOptions) (*child, error) {
	c := &child{log: &childLog{to: o.Logger}, started: make(chan error), exited: make(chan struct{})}
	c.cmd = exec.Command(program, args...) //nolint:noctx // it ends by stop, which waits for it
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = childAttr()
	if o.keep != nil {
		c.cmd.ExtraFiles = inherited(o.keep)
	}
	go c.run()
	if err := <-c.started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) run() {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	err := c.cmd.Start()
	c.started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // err reads the process's state
	close(c.exited)
}

// ready waits until the server answers and is the one that was started.
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

// same returns errPortTaken unless the server that listens at the address is the child, by its process id. The connection is
// made by hand, because a pool would log each refusal.
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

// err reports how the process ended, unless it was stopped.
func (c *child) err() error {
	select {
	case <-c.exited:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked {
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

// stop ends the process and waits for it. That it had ended before is no error.
func (c *child) stop() error {
	c.mu.Lock()
	c.asked = true
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

// childLog passes the child's lines on and remembers the last ones for an error.
type childLog struct {
	to *slog.Logger

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write takes what the child wrote, which may end in the middle of a line.
func (l *childLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, b...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.line(strings.TrimSpace(string(line)))
		l.partial = rest
	}
}

// line takes "pid:role date time level text"; level # is a warning.
func (l *childLog) line(s string) {
	if s == "" {
		return
	}
	if strings.Contains(s, "Ready to accept connections") {
		l.lines = nil // what it had to say about its start is not why it ends
	}
	if _, text, ok := strings.Cut(s, " # "); ok {
		l.lines = append(l.lines, text)
		l.to.Debug("redis-server: "+text, "level", "warning")
		return
	}
	l.to.Debug("redis-server: " + s)
}

// last gives the last warnings on one line.
func (l *childLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(0, len(l.lines)-2)
	return strings.Join(l.lines[from:], "; ")
}
