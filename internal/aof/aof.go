// Package aof repairs the append-only file of a Redis server before it starts.
//
// The writes of a script are one block in the file, MULTI … EXEC. If the process is killed or the machine loses power while a block is
// being written, Redis (7.0) removes only the incomplete command from the end of the file when it starts. The beginning of the block
// remains, and later writes complete it: at the next start Redis executes writes that it has never acknowledged. Histories then contain
// events twice, and inboxes lack inputs. The checking tool of Redis removes the whole block.
package aof

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNoTool is returned if the checking tool is found neither next to the server nor on PATH.
var ErrNoTool = errors.New("not installed")

// Repair removes an incomplete block from the end of the AOF in the directory of a server that is not running. It does nothing without an
// AOF, or if the file is damaged in another way: the tool would remove everything after the damage, and the server refuses to start with
// the file. server is redis-server or valkey-server, by name or path, and determines the tool, redis-check-aof or valkey-check-aof.
func Repair(ctx context.Context, server, dir string) error {
	manifests, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.manifest"))
	if err != nil || len(manifests) == 0 {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(server), "-server") + "-check-aof"
	tool, err := exec.LookPath(filepath.Join(filepath.Dir(server), name))
	if err != nil {
		if tool, err = exec.LookPath(name); err != nil {
			return fmt.Errorf("%s: %w", name, ErrNoTool)
		}
	}
	for _, m := range manifests {
		report, err := exec.CommandContext(ctx, tool, m).CombinedOutput()
		if err == nil || damaged.Match(report) {
			continue
		}
		cmd := exec.CommandContext(ctx, tool, "--fix", m)
		cmd.Stdin = strings.NewReader("y\n") // the tool asks for confirmation
		if out, err := cmd.CombinedOutput(); err != nil {
			const shown = 500
			return fmt.Errorf("%s --fix %s: %w: %s", name, m, err, out[max(0, len(out)-shown):])
		}
	}
	return nil
}

// damaged matches a report about a file that contains other bytes than were written, and is not merely truncated. See also
// scripts/redis-start.sh.
var damaged = regexp.MustCompile(`format error|Expected prefix|Expected \\r\\n, got: [^0]`)
