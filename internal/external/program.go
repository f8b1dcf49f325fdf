package external

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/exec"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	exDataErr = 65      // EX_DATAERR of sysexits.h: the input was wrong
	maxLine   = 4 << 10 // bytes of a log line; the rest of a longer one is dropped
)

// inherited returns the names of the variables that a program receives from the worker. All others may contain secrets of the worker.
func inherited() []string {
	return []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SystemRoot"}
}

// program returns the function that runs the program of the activity.
func (a Activity) program(log *slog.Logger) run {
	final := a.Permanent
	if final == nil {
		final = []int{exDataErr}
	}
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		info := pawl.Info(ctx)
		lines := &lines{log: log.With("activity", info.Name, "instance", info.Instance)}
		cmd := exec.Command(a.Exec[0], a.Exec[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr, cmd.OutputLimit = a.Dir, a.environment(ctx), bytes.NewReader(in), lines, maxBytes
		out, err := cmd.Run(ctx)
		lines.flush()
		if err == nil {
			return result([]byte(out.Stdout), out.StdoutOmitted > 0, a.Exec[0])
		}
		if ctx.Err() != nil {
			return nil, err
		}
		f := &failure{error: err}
		if e := exec.ExitErrorOf(err); e != nil {
			f.final = slices.Contains(final, e.ExitCode)
			return nil, f.describe([]byte(out.Stdout))
		}
		return nil, f // the program could not be started
	}
}

func (a Activity) environment(ctx context.Context) []string {
	info := pawl.Info(ctx)
	var env []string
	for _, name := range inherited() {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range a.Env {
		env = append(env, name+"="+os.ExpandEnv(v))
	}
	for name, v := range headersOf(ctx).All() {
		if !history.IsDeclared(name) {
			env = append(env, strings.ToUpper(name)+"="+v)
		}
	}
	return append(env, "PAWL_ACTIVITY="+info.Name, "PAWL_INSTANCE="+info.Instance, "PAWL_KEY="+info.Key,
		"PAWL_ATTEMPT="+strconv.FormatUint(uint64(info.Attempt), 10))
}

// lines is a writer that logs each line. Writes never fail.
type lines struct {
	log  *slog.Logger
	line []byte
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.keep(b)
			return n, nil
		}
		l.keep(b[:i])
		l.flush()
		b = b[i+1:]
	}
}

func (l *lines) keep(b []byte) { l.line = append(l.line, b[:min(len(b), maxLine-len(l.line))]...) }

// flush logs the incomplete line.
func (l *lines) flush() {
	if line := bytes.TrimSpace(l.line); len(line) > 0 {
		l.log.Info("program output", "line", text.Cut(string(line), maxLine))
	}
	l.line = l.line[:0]
}
