//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/tests/chaos/work"
)

func (h *harness) keys() string { return filepath.Join(h.dir, "payload.keys") }

// key returns a line of the key file.
func key(id string) string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never returns an error
	return id + "=" + base64.StdEncoding.EncodeToString(secret) + "\n"
}

// setKeys replaces the key file, which all members read.
func (h *harness) setKeys(lines ...string) {
	h.t.Helper()
	next := h.keys() + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(strings.Join(lines, "")), 0o600), os.Rename(next, h.keys())); err != nil {
		h.t.Error(err)
	}
}

// rotate exchanges the key while the fleets work: a second key is added after a third of the time, and becomes the current
// key after half of it. A member that a fault delays still uses the older file.
func (h *harness) rotate(ctx context.Context, duration time.Duration) {
	second := key("second")
	for _, step := range []struct {
		after time.Duration
		name  string
		lines []string
	}{{duration / 3, "a second key is added", []string{h.firstKey, second}}, {duration / 6, "the second key is the current one", []string{second, h.firstKey}}} {
		timer := time.NewTimer(step.after)
		select {
		case <-timer.C:
			h.rotated = time.Now()
			h.setKeys(step.lines...)
			h.recordf("%s", step.name)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// codec returns a codec that can open the payloads.
func (h *harness) codec() (*pawlcodec.Codec, error) {
	return settings.Payloads{PayloadKeys: h.keys(), Compress: true, Store: true}.Codec(slog.New(slog.DiscardHandler))
}

// checkSealed returns an error for payloads that are readable in the files of the servers or in the logs. It also requires that
// the ids of instances are found there, to show that it reads the right files.
func (h *harness) checkSealed() error {
	for server, dirs := range map[string][]string{"redis": h.servers.redisDirs(), "nats": h.servers.natsDirs()} {
		ids := false
		for _, dir := range dirs {
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) { // the server has replaced it
					return nil
				} else if err != nil || !d.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if bytes.Contains(b, []byte(work.Canary)) {
					h.violationf("%s has a payload that is readable", path)
				}
				ids = ids || bytes.Contains(b, []byte("sealed-c"))
				return err
			})
			if err != nil {
				return err
			}
		}
		if !ids {
			return fmt.Errorf("no file of %s names an instance: %v", server, dirs)
		}
	}
	for _, m := range h.members {
		if strings.Contains(m.Log(), work.Canary) {
			h.violationf("the log of %s has a payload", m.name)
		}
	}
	return nil
}
