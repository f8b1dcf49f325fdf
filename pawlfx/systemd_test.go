package pawlfx_test

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/pawlfx"
)

func TestSystemdIsNotifiedOfStartAndStop(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	read := func() string {
		b := make([]byte, 100)
		n, err := l.Read(b)
		if err != nil {
			t.Error(err)
		}
		return string(b[:n])
	}
	started := false
	states := make(chan string, 2)
	code := pawlfx.Run(slog.New(slog.DiscardHandler), fx.Invoke(func(lc fx.Lifecycle, s fx.Shutdowner) {
		lc.Append(fx.StartHook(func() { started = true }))
		go func() {
			states <- read()
			_ = s.Shutdown()
			states <- read()
		}()
	}))
	if ready, stopping := <-states, <-states; code != 0 || !started || ready != "READY=1" || stopping != "STOPPING=1" {
		t.Errorf("code %d, started %v, %s, %s", code, started, ready, stopping)
	}
}
