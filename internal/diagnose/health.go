package diagnose

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// fullMemory is the fraction of Redis' memory limit above which a node needs attention.
const fullMemory = 0.8

// Redis describes a Redis node on one line. The Redis in memory of pawl dev reports no version, and no figures.
func Redis(n client.RedisHealth) string {
	if n.Error != "" {
		return "does not answer: " + n.Error
	}
	if n.Version == "" {
		return "runs in memory, answers in " + Latency(n.Latency)
	}
	all := []string{n.Role + " " + n.Version, "answers in " + Latency(n.Latency), Bytes(n.Memory) + " of memory"}
	if n.MaxMemory > 0 {
		all[2] = Bytes(n.Memory) + " of " + Bytes(n.MaxMemory) + " of memory"
	}
	all = append(all, fmt.Sprintf("%d commands/s", n.PerSecond), "AOF "+n.AOF)
	if n.Replicas > 0 {
		all = append(all, Counted(int(n.Replicas), "replica"))
	}
	return strings.Join(append(all, "up "+Duration(n.Uptime)), ", ")
}

// RedisProblem describes what needs attention at a Redis node. It returns "" if there is nothing.
func RedisProblem(n client.RedisHealth) string {
	switch {
	case n.Error != "":
		return "does not answer: " + n.Error
	case n.Role != "master":
		return "is a replica: a new master is being elected, or the address is wrong"
	case n.MaxMemory > 0 && float64(n.Memory) > fullMemory*float64(n.MaxMemory):
		return fmt.Sprintf("uses %s of %s of memory", Bytes(n.Memory), Bytes(n.MaxMemory))
	case n.AOF == "off":
		return "has no append-only file: its data is lost with its process"
	case n.AOF != "ok":
		return "append-only file: " + n.AOF
	default:
		return ""
	}
}

// Stream describes a stream on one line.
func Stream(s client.StreamHealth) string {
	if s.Error != "" {
		return s.Name + ": " + s.Error
	}
	all := []string{Counted(int(s.Messages), "message"), Bytes(int64(s.Bytes)), Counted(s.Consumers, "consumer")} //nolint:gosec // lengths
	if s.Leader != "" {
		all = append(all, Counted(s.Replicas, "replica"), "leader "+s.Leader)
	}
	if s.Behind > 0 {
		all = append(all, fmt.Sprintf("%d of them not current", s.Behind))
	}
	return s.Name + ": " + strings.Join(all, ", ")
}

// Latency formats a duration below a second.
func Latency(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2g ms", float64(d.Microseconds())/1000)
}

// Bytes formats a number of bytes.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/unit, "KMGT"
	i := 0
	for ; f >= unit && i < len(units)-1; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}
