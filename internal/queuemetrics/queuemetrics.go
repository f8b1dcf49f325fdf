// Package queuemetrics shows the counts of a queue.Conn to Prometheus. It is apart
// from package queue so that clients need not link Prometheus.
package queuemetrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/pkg/queue"
)

// Register registers the counts of a Conn as pawl_queue_…_total, with the labels
// namespace and role; role tells apart the connections of one process. A nil
// Registerer registers nothing. Two connections of one namespace and role are an error.
// What it gives back takes the counts away again, for when the Conn is closed.
func Register(reg prometheus.Registerer, role string, conn *queue.Conn) (unregister func(), err error) {
	if reg == nil {
		return func() {}, nil
	}
	c := newCollector(role, conn)
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("queue: register metrics of role %s: %w", role, err)
	}
	return func() { reg.Unregister(c) }, nil
}

type collector struct {
	conn   *queue.Conn
	counts []count
}

type count struct {
	desc *prometheus.Desc
	read func(queue.Stats) uint64
}

func newCollector(role string, conn *queue.Conn) *collector {
	labels := prometheus.Labels{"namespace": conn.Namespace(), "role": role}
	c := &collector{conn: conn}
	add := func(name, help string, read func(queue.Stats) uint64) {
		c.counts = append(c.counts, count{prometheus.NewDesc("pawl_queue_"+name+"_total", help, nil, labels), read})
	}
	add("inputs_published", "Inputs that the stream has acknowledged.", func(s queue.Stats) uint64 { return s.Inputs })
	add("tasks_published", "Tasks that the stream has acknowledged.", func(s queue.Stats) uint64 { return s.Tasks })
	add("publishes_failed", "Publishes that failed, or whose fate is unknown.", func(s queue.Stats) uint64 { return s.Failed })
	add("inputs_received", "Inputs read from the stream.", func(s queue.Stats) uint64 { return s.Received })
	add("inputs_unusable", "Inputs read that can not be used: unknown kind, bad id, too large, newer version.", func(s queue.Stats) uint64 { return s.Unusable })
	add("input_gaps", "Attaches that found inputs removed before they were read.", func(s queue.Stats) uint64 { return s.Gaps })
	add("tasks_delivered", "Tasks taken by this process.", func(s queue.Stats) uint64 { return s.Delivered })
	add("tasks_returned", "Tasks given back unread.", func(s queue.Stats) uint64 { return s.Returned })
	add("poison_tasks", "Task messages that do not decode, removed.", func(s queue.Stats) uint64 { return s.Poison })
	add("forged_tasks", "Task messages whose content is not that of their effect id, removed.", func(s queue.Stats) uint64 { return s.Forged })
	add("resets", "Times that a reading had to be set up again.", func(s queue.Stats) uint64 { return s.Resets })
	add("ignored", "Messages on our core-NATS subjects that do not decode.", func(s queue.Stats) uint64 { return s.Ignored })
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
	s := c.conn.Stats()
	for _, n := range c.counts {
		ch <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.read(s)))
	}
}
