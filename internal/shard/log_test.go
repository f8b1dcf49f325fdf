package shard

import (
	"bytes"
	"log/slog"
	"testing"
)

// A log line of an orchestration contains the id of its instance, outside of groups, whatever logger is derived.
func TestLogLinesOfAnInstanceHaveItsID(t *testing.T) {
	var out bytes.Buffer
	base := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(instanceHandler{base, "order-7"})
	log.Info("a", "n", 1)
	log.With("step", 2).Info("b", "n", 1)
	log.WithGroup("g").Info("c", "n", 1)
	log.Debug("disabled")
	want := "msg=a instance=order-7 n=1\nmsg=b instance=order-7 step=2 n=1\nmsg=c instance=order-7 g.n=1\n"
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
}
