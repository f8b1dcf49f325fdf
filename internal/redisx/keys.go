// Package redisx has the access to Redis: key names, scripts, and the runner that sends concurrent calls in common pipelines.
package redisx

import (
	"strconv"
	"strings"
)

// Space is the key space of a namespace.
type Space struct{ ns string }

// NewSpace returns the key space of a namespace. The caller has validated its name.
func NewSpace(namespace string) Space { return Space{ns: namespace} }

// Meta is the hash of the settings of the namespace: the number of partitions.
func (s Space) Meta() string { return "pawl:{" + s.ns + "}:meta" }

// Members is the hash of orchestrators: member → time of its last heartbeat, ms, and its reach.
func (s Space) Members() string { return "pawl:{" + s.ns + "}:members" }

// Policies is the hash of the policies that were set at run time: level → policy, with a version of its own.
func (s Space) Policies() string { return "pawl:{" + s.ns + "}:policies" }

// Cancelled is the sorted set of the marks of cancelled children, by the time of the cancellation, ms: see history.Mark.
func (s Space) Cancelled() string { return "pawl:{" + s.ns + "}:cancelled" }

// Limit returns the key space of a limit. All its keys have one hash tag, which is not that of a partition.
func (s Space) Limit(name string) Limit { return Limit{prefix: "pawl:{" + s.ns + ".l." + name + "}:"} }

// Limit is the key space of one limit; see docs/decisions/0014-gates.md.
type Limit struct{ prefix string }

// Waiters is the sorted set of waiters: member → number.
func (g Limit) Waiters() string { return g.prefix + "w" }

// Holders is the sorted set of holders: member → when last known to be required, ms.
func (g Limit) Holders() string { return g.prefix + "h" }

// Rejected is the sorted set of rejected waiters, until their owner has recorded it.
func (g Limit) Rejected() string { return g.prefix + "r" }

// Grants is the list of the times of the last grants, ms.
func (g Limit) Grants() string { return g.prefix + "g" }

// State is the hash of the policy in force and the counters.
func (g Limit) State() string { return g.prefix + "s" }

// Part returns the key space of partition p. All its keys have one hash tag, so that any script over one partition is legal on
// Redis Cluster.
func (s Space) Part(p int) Part {
	return Part{prefix: "pawl:{" + s.ns + "." + strconv.Itoa(p) + "}:"}
}

// Part is the key space of one partition.
type Part struct{ prefix string }

// Prefix is the prefix of all keys of the partition.
func (p Part) Prefix() string { return p.prefix }

// Owner is the hash of the owner's token, its expiry, and the applied position.
func (p Part) Owner() string { return p.prefix + "p" }

// Wakeups is the sorted set instance → next wakeup, ms.
func (p Part) Wakeups() string { return p.prefix + "wakeups" }

// Limits is the sorted set limit → next wakeup, ms.
func (p Part) Limits() string { return p.prefix + "limits" }

// Early is the hash instance → bytes of its inputs that came before its start; of all of them under the empty name.
func (p Part) Early() string { return p.prefix + "early" }

// Stalled is the hash instance → why it is stalled.
func (p Part) Stalled() string { return p.prefix + "stalled" }

// Refused is the list of the most recent inputs that could not be used.
func (p Part) Refused() string { return p.prefix + "refused" }

// Index is the sorted set of the instances of a status, by the time of the status.
func (p Part) Index(status string) string { return p.prefix + "x:" + status }

// Values is the sorted set of the instances that have a value of a field, all with the score zero, so that it is ordered by id.
func (p Part) Values(field, value string) string { return p.prefix + "v:" + field + ":" + value }

// Numbers is the sorted set of the instances that have a number in a field, by the number.
func (p Part) Numbers(field string) string { return p.prefix + "n:" + field }

// Orchestrations is the sorted set of the orchestrations that have, or have had, instances in the partition, all with the score zero.
func (p Part) Orchestrations() string { return p.prefix + "orchestrations" }

// Instance is the record of an instance.
func (p Part) Instance(id string) string { return p.prefix + "i:" + id }

// Seen is the sorted set of the message ids that an instance has received.
func (p Part) Seen(id string) string { return p.prefix + "d:" + id }

// Updates is the ledger of the updates of an instance: name and id → open, or the answer.
func (p Part) Updates(id string) string { return p.prefix + "u:" + id }

// Inbox is the list of an instance's unread inputs.
func (p Part) Inbox(id string) string { return p.prefix + "in:" + id }

// History is the list of an execution's events.
func (p Part) History(id string, execution uint64) string {
	return p.prefix + "h:" + id + ":" + strconv.FormatUint(execution, 10)
}

// Reports is the hash activity → how it ended after it was cancelled, of an execution.
func (p Part) Reports(id string, execution uint64) string {
	return p.prefix + "r:" + id + ":" + strconv.FormatUint(execution, 10)
}

// Lease is the lease of an activity, named by the id of the event that scheduled it.
func (p Part) Lease(id string, execution, activity uint64) string {
	return p.prefix + "l:" + id + ":" + strconv.FormatUint(execution, 10) + ":" + strconv.FormatUint(activity, 10)
}

// ParsedKey has the parts of a key of a partition.
type ParsedKey struct {
	Kind      string // "p", "wakeups", "limits", "early", "stalled", "refused", "orchestrations", "x", "v", "n", "i", "d", "u", "in", "h", "l", "r"
	Instance  string // of i, d, u, in, h, l, r; the status of x; what follows v and n
	Execution uint64 // of h, l, r
	Activity  uint64 // of l
}

// Parse splits a key of this partition into its parts. It reports false for a key that Pawl does not write.
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

// Set is the key of an index that Parse has split.
func (p Part) Set(n ParsedKey) string {
	return p.prefix + n.Kind + ":" + n.Instance
}

// cutNumber splits at the last colon: an instance id may contain colons.
func cutNumber(s string) (string, uint64, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 64)
	return s[:i], n, err == nil
}

// Pattern matches the keys of all partitions and limits, for SCAN.
func (s Space) Pattern() string { return "pawl:{" + s.ns + ".*}:*" }

// PartOf returns the partition of a key that Pattern matches. A limit's key has none.
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
