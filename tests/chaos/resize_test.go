//go:build chaos

package chaos

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

const resizeWithin = 2 * time.Minute // while killed orchestrators count as live, the command refuses to start

// resize returns a fault that stops everything except the servers, and changes the number of partitions to n. The command is
// killed after a while, and repeated with the same number or, with undo, alternately with the previous number and with n.
// Faults of the servers continue.
func resize(h *harness, n int, killed time.Duration, undo bool) fault {
	f := fault{name: "change the number of partitions"}
	for _, m := range h.members {
		f.parts = append(f.parts, m.name, m.name+"nats", m.name+"redis")
	}
	f.do = func(time.Duration) {
		var stopping sync.WaitGroup
		for _, m := range h.members {
			stopping.Go(func() {
				if slices.Contains(h.clients, m) { // a stopped client first waits for its results
					m.Kill()
				} else {
					terminate(h, m)
				}
			})
		}
		stopping.Wait()
		former, to := h.partitions, n
		out, err := runResize(h, to, killed)
		for begun := time.Now(); err != nil; out, err = runResize(h, to, resizeWithin) {
			h.recordf("%d to %d partitions: %v %s", former, to, err, out)
			if time.Since(begun) > resizeWithin {
				h.violationf("%d to %d partitions: %v %s", former, to, err, out)
				break // the logs of the members show why they do not start
			}
			wait(time.Second)
			if undo {
				to = former + n - to
			}
		}
		h.recordf("%d to %d partitions: %s", former, to, out)
		h.partitions = to
		for _, m := range h.members {
			m.Setenv("PAWL_PARTITIONS=" + strconv.Itoa(to))
			m.Start()
		}
	}
	return f
}

// runResize runs the command, and kills it after a while.
func runResize(h *harness, n int, killed time.Duration) ([]byte, error) {
	ctx, end := context.WithTimeout(context.Background(), killed)
	defer end()
	return exec.CommandContext(ctx, h.cli, "partitions", "resize", strconv.Itoa(n), "--json",
		"--nats", h.servers.natsURL(), "--redis", h.servers.redisURL(), "--namespace", namespace).CombinedOutput()
}
