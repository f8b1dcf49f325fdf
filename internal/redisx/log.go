package redisx

import (
	"context"
	"log/slog"
)

// LogFailure logs an operation that failed and is retried or repaired. A failure that an outage of Redis explains is logged at
// debug level: the outage has lines of its own.
func LogFailure(log *slog.Logger, msg string, err error, attrs ...any) {
	level := slog.LevelWarn
	if Unavailable(err) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, msg, append(attrs, "error", err)...)
}
