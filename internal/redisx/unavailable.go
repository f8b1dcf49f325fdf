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

// Unavailable reports whether an error means that Redis did not reply, or cannot carry out the call for now: the connection
// failed, it is loading, a replica, out of memory, or its cluster has no master for the slot. A refusal (password, permission, an
// error of a script) is not, and neither is the end of the caller's own context.
func Unavailable(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) || errors.Is(err, redis.ErrClosed) ||
		outage.RefusedTLS(err) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return isConnectionError(err)
	}
	for _, passing := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "ERR max number of clients",
	} {
		if strings.HasPrefix(reply.Error(), passing) {
			return true
		}
	}
	// A script repeats the error of the command that failed in it.
	return strings.Contains(reply.Error(), "OOM command not allowed") || strings.Contains(reply.Error(), "-READONLY") || strings.Contains(reply.Error(), "-MISCONF")
}

// isConnectionError reports whether an error is of the connection to Redis, or of the client's pool, and not of its caller.
func isConnectionError(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, of := range []error{context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if errors.Is(err, of) {
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
