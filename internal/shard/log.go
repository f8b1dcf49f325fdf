package shard

import (
	"context"
	"log/slog"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
)

// logFailure logs the failure of an operation that is retried or repaired. A failure that an outage explains is logged at debug
// level, because the outage itself is logged once for all operations.
func logFailure(log *slog.Logger, msg string, err error, attrs ...any) {
	if transport.Unavailable(err) {
		log.Debug(msg, append(attrs, "error", err)...)
		return
	}
	redisx.LogFailure(log, msg, err, attrs...)
}

// instanceHandler adds the id of an instance to a log record when it is written, not in advance: most instances log nothing.
type instanceHandler struct {
	slog.Handler
	instance string
}

func (h instanceHandler) named() slog.Handler {
	return h.Handler.WithAttrs([]slog.Attr{slog.String("instance", h.instance)})
}

func (h instanceHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.named().Handle(ctx, r)
}

func (h instanceHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.named().WithAttrs(attrs) }

func (h instanceHandler) WithGroup(name string) slog.Handler { return h.named().WithGroup(name) }

// writeLog writes a log line of the owner.
func (s *shell) writeLog(l *core.LogLine) {
	switch {
	case l.Failure != nil && s.ctx.Err() != nil: // the tenure is over
	case l.Failure != nil:
		logFailure(s.log, l.Text, l.Failure, l.Attrs...)
	default:
		s.log.Log(s.life, [...]slog.Level{core.LevelDebug: slog.LevelDebug, core.LevelInfo: slog.LevelInfo, core.LevelWarn: slog.LevelWarn, core.LevelError: slog.LevelError}[l.Level], l.Text, l.Attrs...)
	}
}
