package settings

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// Open returns a logger that writes to w. It also becomes the logger of the Redis client,
// which has one for the whole process and otherwise writes to standard error. Messages of
// the client are logged at debug level, because callers log the same errors.
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

// Printf implements the logger of the Redis client.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	if l.to.Enabled(ctx, slog.LevelDebug) {
		l.to.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
	}
}
