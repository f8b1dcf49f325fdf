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

// readyWithin is how long a server may take until it answers.
const readyWithin = 60 * time.Second

// NATS is a nats-server with JetStream, made from the library.
type NATS struct {
	*Process
	Addr string
	Dir  string // its files
	t    testing.TB
}

// SyncInterval makes a server sync its files in intervals, as it does by default. Without it each message is synced before it is
// acknowledged: a kill loses nothing, and a stream takes some hundred messages a second.
const SyncInterval = "NATSD_SYNC=interval"

// StartNATS starts a server from the binary that Build has made of tests/stack/natsd.
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

// Start starts the server, also again after Kill, and waits until it answers.
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

// URL is its address for clients.
func (n *NATS) URL() string { return "nats://" + n.Addr }

// Client connects; the test closes the connection at its end.
func (n *NATS) Client() *nats.Conn {
	n.t.Helper()
	nc, err := nats.Connect(n.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(natstest.Closer(nc))
	return nc
}
