package settings

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// Open makes the logger, which writes to w. The Redis client has one logger for the
// whole process, which otherwise writes to standard error: it gets this one, at debug
// level, because callers log the same.
func (l Log) Open(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if l.LogFormat == "json" {
		h = slog.NewJSONHandler(w, o)
	}
	logger := slog.New(h)
	redis.SetLogger(redisLog{logger})
	return logger
}

type redisLog struct{ to *slog.Logger }

// Printf is what the Redis client calls.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	if l.to.Enabled(ctx, slog.LevelDebug) {
		l.to.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
	}
}
