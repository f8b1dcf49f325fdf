// Package redisx provides access to Redis: key names, scripts, and the runner that sends concurrent calls in shared pipelines.
package redisx

import (
	"strconv"
	"strings"
)

// Space is the key space of a namespace.
type Space struct{ ns string }

// NewSpace returns the key space of a namespace. The caller has validated its name.
func NewSpace(namespace string) Space { return Space{ns: namespace} }

// Meta returns the key of the hash of settings of the namespace, such as the number of partitions.
func (s Space) Meta() string { return "pawl:{" + s.ns + "}:meta" }

// Members returns the key of the hash of orchestrators: member → time of its last heartbeat, ms, and its reach (see package partition).
func (s Space) Members() string { return "pawl:{" + s.ns + "}:members" }

// Policies returns the key of the hash of policies that were set at run time: level → policy, and their version.
func (s Space) Policies() string { return "pawl:{" + s.ns + "}:policies" }

// Cancelled returns the key of the sorted set of marks of cancelled children, by the time of the cancellation, ms: see effectid.Mark.
func (s Space) Cancelled() string { return "pawl:{" + s.ns + "}:cancelled" }

// Limit returns the key space of a limit. All its keys have the same hash tag, which differs from those of partitions.
func (s Space) Limit(name string) Limit { return Limit{prefix: "pawl:{" + s.ns + ".l." + name + "}:"} }

// Limit is the key space of one limit; see docs/decisions/0014-limits.md.
type Limit struct{ prefix string }

// Waiters returns the key of the sorted set of waiters: member → number.
func (g Limit) Waiters() string { return g.prefix + "w" }

// Holders returns the key of the sorted set of holders: member → time when it was last known to be required, ms.
func (g Limit) Holders() string { return g.prefix + "h" }

// Rejected returns the key of the sorted set of rejected waiters, which contains each until its owner has recorded the rejection.
func (g Limit) Rejected() string { return g.prefix + "r" }

// Grants returns the key of the list of times of the last grants, ms.
func (g Limit) Grants() string { return g.prefix + "g" }

// State returns the key of the hash of the policy in force and the counters.
func (g Limit) State() string { return g.prefix + "s" }

// Part returns the key space of partition p. All its keys have the same hash tag, so a script may use all keys of one partition on Redis
// Cluster.
func (s Space) Part(p int) Part {
	return Part{prefix: "pawl:{" + s.ns + "." + strconv.Itoa(p) + "}:"}
}

// Part is the key space of one partition.
type Part struct{ prefix string }

// Prefix returns the prefix of all keys of the partition.
func (p Part) Prefix() string { return p.prefix }

// Owner returns the key of the hash of the owner's token, its expiry, and the applied stream position.
func (p Part) Owner() string { return p.prefix + "p" }

// Wakeups returns the key of the sorted set instance → next wakeup, ms.
func (p Part) Wakeups() string { return p.prefix + "wakeups" }

// Limits returns the key of the sorted set limit → next wakeup, ms.
func (p Part) Limits() string { return p.prefix + "limits" }

// Early returns the key of the hash instance → bytes of its inputs that arrived before its start; the empty name contains their sum.
func (p Part) Early() string { return p.prefix + "early" }

// Stalled returns the key of the hash instance → reason why it is stalled.
func (p Part) Stalled() string { return p.prefix + "stalled" }

// Refused returns the key of the list of the latest refused inputs.
func (p Part) Refused() string { return p.prefix + "refused" }

// Index returns the key of the sorted set of instances with a status, by the time of the change to the status.
func (p Part) Index(status string) string { return p.prefix + "x:" + status }

// Values returns the key of the sorted set of instances with a value of a field. All scores are zero, so it is ordered by id.
func (p Part) Values(field, value string) string { return p.prefix + "v:" + field + ":" + value }

// Numbers returns the key of the sorted set of instances with a number in a field, by the number.
func (p Part) Numbers(field string) string { return p.prefix + "n:" + field }

// Orchestrations returns the key of the sorted set of orchestrations that have or had instances in the partition. All scores are zero.
func (p Part) Orchestrations() string { return p.prefix + "orchestrations" }

// Instance returns the key of the record of an instance.
func (p Part) Instance(id string) string { return p.prefix + "i:" + id }

// Seen returns the key of the sorted set of message ids that an instance has received.
func (p Part) Seen(id string) string { return p.prefix + "d:" + id }

// Updates returns the key of the ledger of an instance's updates: name and id → open, or the answer.
func (p Part) Updates(id string) string { return p.prefix + "u:" + id }

// Inbox returns the key of the list of unread inputs of an instance.
func (p Part) Inbox(id string) string { return p.prefix + "in:" + id }

// History returns the key of the list of history events of an execution.
func (p Part) History(id string, execution uint64) string {
	return p.prefix + "h:" + id + ":" + strconv.FormatUint(execution, 10)
}

// Reports returns the key of the hash of an execution activity → how it ended after its cancellation.
func (p Part) Reports(id string, execution uint64) string {
	return p.prefix + "r:" + id + ":" + strconv.FormatUint(execution, 10)
}

// Lease returns the key of the lease of an activity, which is identified by the event that scheduled it.
func (p Part) Lease(id string, execution, activity uint64) string {
	return p.prefix + "l:" + id + ":" + strconv.FormatUint(execution, 10) + ":" + strconv.FormatUint(activity, 10)
}

// ParsedKey contains the parts of a key of a partition.
type ParsedKey struct {
	Kind      string // "p", "wakeups", "limits", "early", "stalled", "refused", "orchestrations", "x", "v", "n", "i", "d", "u", "in", "h", "l", "r"
	Instance  string // for i, d, u, in, h, l, r; the status for x; field and value for v, field for n
	Execution uint64 // for h, l, r
	Activity  uint64 // for l
}

// Parse splits a key of this partition into its parts. ok is false for a key that Pawl does not write.
func (p Part) Parse(key string) (ParsedKey, bool) {
	rest, ok := strings.CutPrefix(key, p.prefix)
	if !ok {
		return ParsedKey{}, false
	}
	kind, rest, _ := strings.Cut(rest, ":")
	n := ParsedKey{Kind: kind, Instance: rest}
	switch kind {
	case "p", "wakeups", "limits", "early", "stalled", "refused", "orchestrations":
		return n, rest == ""
	case "v":
		return n, strings.Contains(rest, ":") // field and value
	case "x", "n", "i", "d", "u", "in":
		return n, rest != ""
	case "l":
		if n.Instance, n.Activity, ok = cutNumber(n.Instance); !ok {
			return ParsedKey{}, false
		}
	case "h", "r":
	default:
		return ParsedKey{}, false
	}
	n.Instance, n.Execution, ok = cutNumber(n.Instance)
	return n, ok
}

// Set returns the key of an index from its parts.
func (p Part) Set(n ParsedKey) string {
	return p.prefix + n.Kind + ":" + n.Instance
}

// cutNumber splits a key at its last colon, because an instance id may contain colons.
func cutNumber(s string) (string, uint64, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 64)
	return s[:i], n, err == nil
}

// Pattern returns the pattern for SCAN of the keys of all partitions and limits.
func (s Space) Pattern() string { return "pawl:{" + s.ns + ".*}:*" }

// PartOf returns the partition of a key that matches Pattern; ok is false for the key of a limit.
func (s Space) PartOf(key string) (int, bool) {
	rest, ok := strings.CutPrefix(key, "pawl:{"+s.ns+".")
	if !ok {
		return 0, false
	}
	n, _, ok := strings.Cut(rest, "}:")
	if !ok {
		return 0, false
	}
	p, err := strconv.Atoi(n)
	return p, err == nil
}
