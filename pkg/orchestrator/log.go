package orchestrator

import (
	"log/slog"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/queue"
)

// logFailure logs an operation that failed and is repeated or repaired. One that an outage explains is logged at debug
// level: the outage has lines of its own, however many operations it meets.
func logFailure(log *slog.Logger, msg string, err error, attrs ...any) {
	if queue.Unavailable(err) {
		log.Debug(msg, append(attrs, "error", err)...)
		return
	}
	redisx.LogFailure(log, msg, err, attrs...)
}
