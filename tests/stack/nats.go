package stack

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
)

// readyWithin is the maximum time until a server answers, and connectWithin that of a connection to a server that is ready.
const (
	readyWithin   = 60 * time.Second
	connectWithin = 20 * time.Second
)

// NATS is a nats-server with JetStream, built from the library.
type NATS struct {
	*Process
	Addr string
	Dir  string // directory of its files
	t    testing.TB
}

// SyncInterval makes a server sync its files periodically, which is the default of nats-server. Without it, every message is
// synced before it is acknowledged: a kill loses nothing, but a stream accepts only some hundred messages per second.
const SyncInterval = "NATSD_SYNC=interval"

// StartNATS starts a server from the binary that Build has built from tests/stack/natsd.
func StartNATS(t testing.TB, bin Binaries, env ...string) *NATS {
	t.Helper()
	port, dir := freeport.Take(t), t.TempDir()
	n := &NATS{
		Process: NewProcess(t, "nats-"+strconv.Itoa(port), bin.NATS, []string{strconv.Itoa(port), dir}, env),
		Addr:    local(port), Dir: dir, t: t,
	}
	n.Start()
	return n
}

// Start starts the server, or restarts it after Kill, and waits until it answers.
func (n *NATS) Start() {
	n.t.Helper()
	n.Process.Start()
	poll.Until(n.t, readyWithin, "nats-server answers", func() bool {
		nc, err := nats.Connect(n.URL(), nats.Timeout(time.Second), nats.NoReconnect())
		if err != nil {
			return false
		}
		natstest.Closer(nc)()
		return true
	})
}

// URL returns the URL for clients.
func (n *NATS) URL() string { return "nats://" + n.Addr }

// Client connects to the server. The connection is closed at the end of the test.
func (n *NATS) Client() *nats.Conn {
	n.t.Helper()
	return connect(n.t, n.URL())
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(connectWithin), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(natstest.Closer(nc))
	return nc
}
