package redisx

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replyError is the error of a call within an array.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (e replyError) RedisError() {}

// isReply reports whether the error is a reply of Redis. After any other error it is unknown whether the call took effect.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isRedirect reports whether a node has replied that the slot belongs, or will belong, to another one.
func isRedirect(err error) bool {
	return hasPrefix(err.Error(), "MOVED", "ASK", "TRYAGAIN")
}

// isTransient reports whether a reply concerns the state of the node or of its cluster, and not the call.
func isTransient(err error) bool {
	m := err.Error()
	return hasPrefix(m, "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY ", "ERR max number of clients reached") ||
		strings.Contains(m, "-READONLY ") // the error of a script contains that of its failed command
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// Refused reports whether Redis will refuse the call again, as for a key of another type or an error of the script. It is false for
// transient states (loading, out of memory, a replica, a cluster that is resharded) and for calls that never reached Redis.
func Refused(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return false
	}
	m := reply.Error()
	if hasPrefix(m, "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "OOM", "MISCONF", "NOSCRIPT", "NOAUTH", "NOPERM",
		"WRONGPASS", "UNKILLABLE", "NOREPLICAS", "EXECABORT") {
		return false
	}
	// The error of a script contains that of its failed command.
	return !strings.Contains(m, "OOM command not allowed") && !strings.Contains(m, "READONLY") && !strings.Contains(m, "MISCONF")
}
