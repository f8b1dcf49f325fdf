package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/pawlrun/pawl/internal/redact"
)

// URL is a URL that may have a password, or a list of them. Every way of printing it hides the password; string(u) does not.
type URL string

// String returns what may be shown.
func (u URL) String() string { return redact.URLs(string(u)) }

// GoString returns what may be shown.
func (u URL) GoString() string { return fmt.Sprintf("%q", u.String()) }

// LogValue returns what may be shown.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText returns what may be shown.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

const maxSecret = 4096

// readSecret reads a file that holds one line: a password or a token. The error names the file, not what is in it.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	s := strings.TrimRight(string(b), "\r\n")
	switch {
	case s == "":
		return "", fmt.Errorf("read the password: %s is empty", path)
	case len(s) > maxSecret || strings.ContainsAny(s, "\r\n\x00"):
		return "", fmt.Errorf("read the password: %s has more than one line, or more than %d bytes", path, maxSecret)
	}
	return s, nil
}

// secretFile reads a password each time it is needed, so that one that was replaced is in force from the next connection on.
// While the file cannot be read, the password of before is used, and the log has the reason.
type secretFile struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	last string
}

func (f *secretFile) read() string {
	s, err := readSecret(f.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.log.Warn("password file not read, using former password", "error", err)
		return f.last
	}
	f.last = s
	return s
}

var errTwoPasswords = errors.New("a user or password is given both in the URL and by a flag: give it once")

// warnReadable warns of files with secrets that every user of the machine may read. Empty paths are skipped.
func warnReadable(log *slog.Logger, paths ...string) {
	if runtime.GOOS == "windows" { // has no such bits
		return
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o007 != 0 {
			log.Warn("secret file is accessible to all users", "file", path, "mode", info.Mode().Perm().String())
		}
	}
}

// orDiscard accepts a logger that is nil.
func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// provider is what the Redis client calls for each connection.
func (f *secretFile) provider(user string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return user, f.read(), nil }
}
