package redisx

import (
	"context"
	"log/slog"
)

// LogFailure logs an operation that failed and is repeated or repaired. One that an outage of Redis explains is logged at
// debug level: the outage has lines of its own, however many operations it meets.
func LogFailure(log *slog.Logger, msg string, err error, attrs ...any) {
	level := slog.LevelWarn
	if Unavailable(err) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, msg, append(attrs, "error", err)...)
}
