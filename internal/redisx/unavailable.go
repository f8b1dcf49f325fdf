package redisx

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/outage"
)

// Unavailable reports whether an error means that Redis did not reply, or cannot execute the call at present: the connection failed,
// Redis is loading, a replica or out of memory, or its cluster has no master for the slot. It is false for a refusal (password,
// permission, error of a script) and for the end of the caller's own context.
func Unavailable(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) || errors.Is(err, redis.ErrClosed) ||
		outage.RefusedTLS(err) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return isConnectionError(err)
	}
	m := reply.Error()
	// The error of a script contains that of its failed command.
	return hasPrefix(m, "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "ERR max number of clients") ||
		strings.Contains(m, "OOM command not allowed") || strings.Contains(m, "-READONLY") || strings.Contains(m, "-MISCONF")
}

// isConnectionError reports whether an error concerns the connection to Redis or the client's connection pool, and not the caller.
func isConnectionError(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, target := range []error{context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if errors.Is(err, target) {
			return true
		}
	}
	for _, untyped := range []string{"redis: cluster has no nodes", "redis: all sentinels", "redis: connection"} {
		if strings.Contains(err.Error(), untyped) {
			return true
		}
	}
	return false
}
