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

// lock is an exclusive lock on a file, which the kernel drops with the last process
// that has the file open. The file names the holder; it is never removed, because a
// process that waits for the old file would not see the lock on a new one.
type lock struct{ file *os.File }

// lockTimeout bounds the end of a holder: one that was killed leaves the
// lock only when the last thread of its child is gone.
const lockTimeout = time.Second

func acquire(ctx context.Context, name string) (*lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded: lock the data directory: %w", err)
	}
	if err := waitFor(ctx, f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 64)) // only for the message
		err = fmt.Errorf("%w: %s is held by process %s; stop that one, or use another directory",
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
