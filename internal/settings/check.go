package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/transport"
)

// The groups are checked when they are parsed, so that an invalid setting is a usage error and not a later failure. kong calls
// AfterApply of every embedded exported group. An unexported struct that embeds a group must call it.

const (
	minLeaseTTL = 100 * time.Millisecond
	minInputs   = 16 << 20 // bytes; room for a few of the largest messages
)

// AfterApply rejects names that cannot be part of a subject.
func (n Namespace) AfterApply() error {
	if regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(n.Namespace) {
		return nil
	}
	return fmt.Errorf("--namespace %q: must be 1 to 64 characters of A-Z a-z 0-9 _ -", n.Namespace)
}

// AfterApply rejects a URL that is no Redis URL, and files that cannot be read.
func (r Redis) AfterApply() error {
	rdb, err := r.client(nil) // does not connect before its first use
	if err != nil {
		return fmt.Errorf("--redis %s: %w", r.RedisURL, err)
	}
	return rdb.Close()
}

var inboxPrefix = regexp.MustCompile(`^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)?$`)

// AfterApply rejects a URL that cannot be parsed, and files that cannot be read.
func (n NATS) AfterApply() error {
	if !inboxPrefix.MatchString(n.NATSInbox) {
		return fmt.Errorf("--nats-inbox-prefix %q: must be the prefix of a subject, such as _INBOX_client", n.NATSInbox)
	}
	for server := range strings.SplitSeq(string(n.NATSURL), ",") {
		if scheme, _, ok := strings.Cut(strings.TrimSpace(server), "://"); ok && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, scheme) {
			return fmt.Errorf("--nats %s: the scheme must be nats, tls, ws or wss", n.NATSURL)
		}
	}
	if _, err := n.options(nil); err != nil {
		return fmt.Errorf("--nats %s: %w", n.NATSURL, err)
	}
	return nil
}

// AfterApply rejects numbers out of bounds.
func (o Orchestrator) AfterApply() error {
	switch {
	case o.Partitions < 1 || o.Partitions > transport.MaxPartitions:
		return fmt.Errorf("--partitions must be 1 to %d (got %d)", transport.MaxPartitions, o.Partitions)
	case o.Replicas < 1 || o.Replicas > 5:
		return fmt.Errorf("--replicas must be 1 to 5 (got %d)", o.Replicas)
	case o.InputsMax < minInputs:
		return fmt.Errorf("--inputs-max-bytes must be at least %d (got %d)", minInputs, o.InputsMax)
	case o.MaxDepth < 1:
		return fmt.Errorf("--max-child-depth must be at least 1 (got %d)", o.MaxDepth)
	case o.Reconcile <= 0:
		return fmt.Errorf("--reconcile-interval must be positive (got %s)", o.Reconcile)
	}
	return nil
}

// AfterApply rejects numbers out of bounds.
func (w Worker) AfterApply() error {
	switch {
	case w.LeaseTTL < minLeaseTTL:
		return fmt.Errorf("--lease-ttl must be at least %s (got %s)", minLeaseTTL, w.LeaseTTL)
	case w.Concurrency < 1:
		return fmt.Errorf("--concurrency must be at least 1 (got %d)", w.Concurrency)
	case w.Grace <= 0:
		return fmt.Errorf("--grace must be positive (got %s)", w.Grace)
	case w.MaxAbandoned < 1:
		return fmt.Errorf("--max-abandoned must be at least 1 (got %d)", w.MaxAbandoned)
	}
	return nil
}

// AfterApply rejects a negative drain.
func (f Fleet) AfterApply() error {
	if f.Drain < 0 {
		return fmt.Errorf("--drain must not be negative (got %s)", f.Drain)
	}
	if err := transport.CheckReplyPrefixes(f.Replies); err != nil {
		return fmt.Errorf("--reply-prefixes: %w", err)
	}
	return nil
}
