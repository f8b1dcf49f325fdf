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

// URL is a URL that may contain a password, or a list of URLs. All of its methods, and so all ways of formatting, redact the password;
// string(u) does not.
type URL string

// String returns the redacted URL.
func (u URL) String() string { return redact.URLs(string(u)) }

// GoString returns the redacted URL.
func (u URL) GoString() string { return fmt.Sprintf("%q", u.String()) }

// LogValue returns the redacted URL.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText returns the redacted URL.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

const maxSecret = 4096 // bytes

// readSecret reads a file that contains one line: a password or a token. The error contains the name of the file, but not its content.
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

// secretFile reads a password for each connection, so that a replaced password is used from the next connection on.
// While the file cannot be read, the former password is used, and the error is logged.
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

// warnReadable logs files with secrets that every user of the machine can read. It skips empty paths.
func warnReadable(log *slog.Logger, paths ...string) {
	if runtime.GOOS == "windows" { // has no permission bits
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

// orDiscard returns the logger, or one that discards all records if it is nil.
func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// provider returns the function that the Redis client calls for the credentials of each connection.
func (f *secretFile) provider(user string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return user, f.read(), nil }
}
