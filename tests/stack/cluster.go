package stack

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
)

// clusterWithin is the maximum time in which a cluster elects its leaders, after its start or the loss of a server.
const clusterWithin = 60 * time.Second

// NATSCluster is a cluster of three nats-servers, whose streams can have three replicas.
type NATSCluster struct {
	Nodes []*NATS
	names []string
	t     testing.TB
}

// StartNATSCluster starts the servers, and waits until they have elected a JetStream leader.
func StartNATSCluster(t testing.TB, bin Binaries) *NATSCluster {
	t.Helper()
	c := &NATSCluster{t: t}
	ports, routes := make([]int, 3), make([]string, 3)
	for i := range ports {
		ports[i] = freeport.Take(t)
		routes[i] = local(freeport.Take(t))
	}
	for i, port := range ports {
		name, dir := "nats-"+strconv.Itoa(i+1), t.TempDir()
		c.names = append(c.names, name)
		c.Nodes = append(c.Nodes, &NATS{
			Process: NewProcess(t, name, bin.NATS, []string{strconv.Itoa(port), dir, name, routes[i], strings.Join(routes, ",")}, nil),
			Addr:    local(port), Dir: dir, t: t,
		})
	}
	for _, n := range c.Nodes {
		n.Start()
	}
	poll.Until(t, clusterWithin, "the cluster has a JetStream leader", func() bool {
		nc, err := nats.Connect(c.URL(), nats.Timeout(time.Second), nats.NoReconnect())
		if err != nil {
			return false
		}
		defer natstest.Closer(nc)()
		js, err := nc.JetStream(nats.MaxWait(2 * time.Second))
		if err != nil {
			return false
		}
		_, err = js.AccountInfo()
		return err == nil
	})
	return c
}

// URL returns the URLs of all servers.
func (c *NATSCluster) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		urls[i] = n.URL()
	}
	return strings.Join(urls, ",")
}

// Client connects to any of the servers. The connection is closed at the end of the test.
func (c *NATSCluster) Client() *nats.Conn {
	c.t.Helper()
	return connect(c.t, c.URL())
}

// Leader waits until a stream has a leader other than a given server (nil: any), and current replicas are up to date. It
// returns the leader and one of the other servers.
func (c *NATSCluster) Leader(nc *nats.Conn, stream string, not *NATS, current int) (leader, follower *NATS) {
	c.t.Helper()
	js, err := nc.JetStream(nats.MaxWait(2 * time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	poll.Until(c.t, clusterWithin, "stream "+stream+" has a leader", func() bool {
		info, err := js.StreamInfo(stream)
		if err != nil || info.Cluster == nil {
			return false
		}
		leader, follower = nil, nil
		ok := 1
		for _, r := range info.Cluster.Replicas {
			if r.Current && !r.Offline {
				ok++
				follower = c.node(r.Name)
			}
		}
		leader = c.node(info.Cluster.Leader)
		return leader != nil && leader != not && ok >= current
	})
	return leader, follower
}

// InSync waits until every replica of a stream and of its consumers is up to date. A stream in memory may lose its leader
// forever if another server is lost before the restarted one has caught up.
func (c *NATSCluster) InSync(nc *nats.Conn, stream string) {
	c.t.Helper()
	js, err := nc.JetStream(nats.MaxWait(2 * time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	current := func(info *nats.ClusterInfo) bool {
		return info != nil && info.Leader != "" && !slices.ContainsFunc(info.Replicas, func(r *nats.PeerInfo) bool { return !r.Current || r.Offline })
	}
	poll.Until(c.t, clusterWithin, "stream "+stream+" and its consumers are in sync", func() bool {
		info, err := js.StreamInfo(stream)
		if err != nil || !current(info.Cluster) {
			return false
		}
		n := 0
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel() // ends the sending goroutine, even if not all values were read
		for consumer := range js.Consumers(stream, nats.Context(ctx)) {
			if n++; !current(consumer.Cluster) {
				return false
			}
		}
		return n == info.State.Consumers
	})
}

func (c *NATSCluster) node(name string) *NATS {
	for i, n := range c.names {
		if n == name {
			return c.Nodes[i]
		}
	}
	return nil
}
