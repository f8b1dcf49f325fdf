package pawlfx

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
)

// States that sd_notify(3) sends.
const (
	systemdReady    = "READY=1"
	systemdStopping = "STOPPING=1"
)

// notifySystemd reports a state of the process to systemd, for units of Type=notify. Without NOTIFY_SOCKET it does nothing.
func notifySystemd(log *slog.Logger, state string) {
	if err := sendSystemd(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		log.Warn("systemd not notified", "state", state, "error", err)
	}
}

func sendSystemd(socket, state string) error {
	if socket == "" {
		return nil
	}
	if strings.HasPrefix(socket, "@") { // an abstract socket
		socket = "\x00" + socket[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
