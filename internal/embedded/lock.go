package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lock is an exclusive lock on a file. The kernel releases it when the last process that has the file open ends. The file contains the
// process id of the holder. It is never removed, because a process waiting for the lock on the old file would not notice the lock on a
// new one.
type lock struct{ file *os.File }

// lockTimeout is the time for which acquire waits for a holder that is ending: after a kill, the lock is released only when the last
// thread of the child has ended.
const lockTimeout = time.Second

// acquire locks a file, and writes the process id into it.
func acquire(ctx context.Context, name string) (*lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded: lock the data directory: %w", err)
	}
	if err := waitFor(ctx, f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 64)) // for the error
		err = fmt.Errorf("%w: %s is held by process %s; stop it, or use another directory",
			ErrInUse, filepath.Dir(name), strings.TrimSpace(string(holder)))
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: lock the data directory: %w", err), f.Close())
	}
	return &lock{file: f}, nil
}

func waitFor(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := lockFile(f)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (l *lock) release() error { return l.file.Close() }
