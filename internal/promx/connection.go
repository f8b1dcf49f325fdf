package promx

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/transport"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterConn registers the counters of a Conn as pawl_queue_…_total, with the labels namespace and role. The role distinguishes the
// connections of one process; two connections with the same namespace and role are an error. A nil registerer registers nothing.
// unregister removes the counters, and is called when the Conn is closed.
func RegisterConn(reg prometheus.Registerer, role string, conn *transport.Conn) (unregister func(), err error) {
	if reg == nil {
		return func() {}, nil
	}
	c := NewConn(role, conn.Stats)
	reg = Namespace(reg, conn.Namespace())
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("queue: register metrics of role %s: %w", role, err)
	}
	return func() { reg.Unregister(c) }, nil
}

type collector struct {
	stats  func() transport.Stats
	counts []count
}

type count struct {
	desc *prometheus.Desc
	read func(transport.Stats) uint64
}

// NewConn returns the counters of a connection.
func NewConn(role string, stats func() transport.Stats) prometheus.Collector {
	labels := prometheus.Labels{"role": role}
	c := &collector{stats: stats}
	add := func(name, help string, read func(transport.Stats) uint64) {
		c.counts = append(c.counts, count{prometheus.NewDesc("pawl_queue_"+name+"_total", help, nil, labels), read})
	}
	add("inputs_published", "Inputs that the stream has acknowledged.", func(s transport.Stats) uint64 { return s.Inputs })
	add("tasks_published", "Tasks that the stream has acknowledged.", func(s transport.Stats) uint64 { return s.Tasks })
	add("publishes_failed", "Publishes that failed, or whose outcome is unknown.", func(s transport.Stats) uint64 { return s.Failed })
	add("inputs_received", "Inputs read from the stream.", func(s transport.Stats) uint64 { return s.Received })
	add("inputs_unusable", "Inputs read that cannot be used: unknown kind, bad id, too large, newer version.", func(s transport.Stats) uint64 { return s.Unusable })
	add("input_gaps", "Attaches that found inputs removed before they were read.", func(s transport.Stats) uint64 { return s.Gaps })
	add("tasks_delivered", "Tasks taken by this process.", func(s transport.Stats) uint64 { return s.Delivered })
	add("tasks_returned", "Tasks returned unread.", func(s transport.Stats) uint64 { return s.Returned })
	add("poison_tasks", "Task messages that do not decode, removed.", func(s transport.Stats) uint64 { return s.Poison })
	add("forged_tasks", "Task messages whose content does not match their effect id, removed.", func(s transport.Stats) uint64 { return s.Forged })
	add("resets", "Times that a consumer was set up again.", func(s transport.Stats) uint64 { return s.Resets })
	add("ignored", "Messages on Pawl's core-NATS subjects that do not decode.", func(s transport.Stats) uint64 { return s.Ignored })
	add("objects_read", "Large payloads read from the object store.", func(s transport.Stats) uint64 { return s.ObjectsRead })
	add("objects_stored", "Large payloads written to the object store, repeats included.", func(s transport.Stats) uint64 { return s.ObjectsStored })
	add("object_errors", "Reads and writes of large payloads that failed, or whose object the store did not have.", func(s transport.Stats) uint64 { return s.ObjectErrors })
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, n := range c.counts {
		ch <- n.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	for _, n := range c.counts {
		ch <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.read(s)))
	}
}
