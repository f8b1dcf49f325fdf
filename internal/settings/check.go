package settings

import (
	"fmt"
	"regexp"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// The groups are checked when they are parsed, so that a setting which can not be meant
// is wrong use, and not a failure later on. kong calls AfterApply of every exported
// group that is embedded; whoever embeds one in an unexported struct calls it.

const (
	leastLeaseTTL = 100 * time.Millisecond
	minInputs     = 16 << 20 // bytes: a few of the largest messages
)

// AfterApply refuses names that can not be part of a subject.
func (n Namespace) AfterApply() error {
	if regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(n.Namespace) {
		return nil
	}
	return fmt.Errorf("--namespace %q: want 1 to 64 characters of A-Z a-z 0-9 _ -", n.Namespace)
}

// AfterApply refuses a URL that names no Redis, and files that can not be read.
func (r Redis) AfterApply() error {
	rdb, err := r.client(nil) // connects when it is first used
	if err != nil {
		return fmt.Errorf("--redis %s: %w", r.RedisURL, err)
	}
	return rdb.Close()
}

var inboxPrefix = regexp.MustCompile(`^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)?$`)

// AfterApply refuses a URL that cannot be read, and files that can not be read.
func (n NATS) AfterApply() error {
	if !inboxPrefix.MatchString(n.NATSInbox) {
		return fmt.Errorf("--nats-inbox-prefix %q: want the beginning of a subject, such as _INBOX_client", n.NATSInbox)
	}
	if _, err := n.options(nil); err != nil {
		return fmt.Errorf("--nats %s: %w", n.NATSURL, err)
	}
	return nil
}

// AfterApply refuses numbers that are out of their bounds.
func (o Orchestrator) AfterApply() error {
	switch {
	case o.Partitions < 1 || o.Partitions > queue.MaxPartitions:
		return fmt.Errorf("--partitions %d: want 1 to %d", o.Partitions, queue.MaxPartitions)
	case o.Replicas < 1 || o.Replicas > 5:
		return fmt.Errorf("--replicas %d: want 1 to 5", o.Replicas)
	case o.InputsMax < minInputs:
		return fmt.Errorf("--inputs-max-bytes %d: want at least %d", o.InputsMax, minInputs)
	case o.MaxDepth < 1:
		return fmt.Errorf("--max-child-depth %d: want at least 1", o.MaxDepth)
	case o.Look <= 0:
		return fmt.Errorf("--look %s: want more than nothing", o.Look)
	}
	return nil
}

// AfterApply refuses numbers that are out of their bounds.
func (w Worker) AfterApply() error {
	switch {
	case w.LeaseTTL < leastLeaseTTL:
		return fmt.Errorf("--lease-ttl %s: want at least %s", w.LeaseTTL, leastLeaseTTL)
	case w.Concurrency < 1:
		return fmt.Errorf("--concurrency %d: want at least 1", w.Concurrency)
	case w.Grace <= 0:
		return fmt.Errorf("--grace %s: want more than nothing", w.Grace)
	case w.MaxAbandoned < 1:
		return fmt.Errorf("--max-abandoned %d: want at least 1", w.MaxAbandoned)
	}
	return nil
}

// AfterApply refuses a drain in the past.
func (f Fleet) AfterApply() error {
	if f.Drain < 0 {
		return fmt.Errorf("--drain %s: want nothing or more", f.Drain)
	}
	if err := queue.CheckReplyPrefixes(f.Replies); err != nil {
		return fmt.Errorf("--reply-prefixes: %w", err)
	}
	return nil
}
