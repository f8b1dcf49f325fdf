package redisx

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replyError is the error of a call within an array.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e replyError) RedisError() {}

// isReply reports whether the error is a reply of Redis. Any other leaves open whether the call was carried out.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isRedirect reports whether a node has replied that the slot belongs, or will belong, to another.
func isRedirect(err error) bool {
	m := err.Error()
	return strings.HasPrefix(m, "MOVED") || strings.HasPrefix(m, "ASK") || strings.HasPrefix(m, "TRYAGAIN")
}

// isTransient reports whether a reply is about the state of the node or of its cluster, and not about the call.
func isTransient(err error) bool {
	m := err.Error()
	for _, state := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY ", "ERR max number of clients reached",
	} {
		if strings.HasPrefix(m, state) {
			return true
		}
	}
	return strings.Contains(m, "-READONLY ") // a script repeats the error of the command that failed in it
}

// Refused reports whether Redis will refuse the call again: a key of another type, an error of the script. Transient states
// (loading, out of memory, a replica, a cluster that moves) and calls that never reached Redis are not.
func Refused(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return false
	}
	m := reply.Error()
	for _, passing := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "OOM", "MISCONF", "NOSCRIPT", "NOAUTH", "NOPERM", "WRONGPASS", "UNKILLABLE", "NOREPLICAS", "EXECABORT",
	} {
		if strings.HasPrefix(m, passing) {
			return false
		}
	}
	// A script repeats the error of the command that failed in it.
	return !strings.Contains(m, "OOM command not allowed") && !strings.Contains(m, "READONLY") && !strings.Contains(m, "MISCONF")
}
