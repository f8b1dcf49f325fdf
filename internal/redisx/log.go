package redisx

import (
	"context"
	"log/slog"
)

// LogFailure logs an operation that failed and will be retried or repaired. If an outage of Redis explains the failure, it is logged at
// debug level, because the outage is logged itself.
func LogFailure(log *slog.Logger, msg string, err error, attrs ...any) {
	level := slog.LevelWarn
	if Unavailable(err) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, msg, append(attrs, "error", err)...)
}
