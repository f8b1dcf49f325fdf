package orchestrator

import (
	"context"
	"log/slog"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/queue"
)

// logFailure logs an operation that failed and is repeated or repaired. One that an outage explains is logged at debug
// level: the outage has lines of its own, however many operations it meets.
func logFailure(log *slog.Logger, msg string, err error, attrs ...any) {
	level := slog.LevelWarn
	if redisx.Unavailable(err) || queue.Unavailable(err) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, msg, append(attrs, "error", err)...)
}
