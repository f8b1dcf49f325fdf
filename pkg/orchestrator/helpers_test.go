package orchestrator_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
)

func callSlow(ctx *pawl.Context, in string) (string, error) { return slow.Call(ctx, in) }

// counted reads a counter of an orchestrator.
type counted struct {
	t   *testing.T
	reg *prometheus.Registry
}

func counters(t *testing.T) counted { return counted{t: t, reg: prometheus.NewRegistry()} }

func (c counted) get(name string) float64 {
	c.t.Helper()
	families, err := c.reg.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	c.t.Fatal("no counter " + name)
	return 0
}

// samePartition returns n ids of one partition.
func (s *harness) samePartition(n int) []string {
	part := s.conn.PartitionOf("first")
	out := []string{"first"}
	for i := 0; len(out) < n; i++ {
		if id := fmt.Sprint("n-", i); s.conn.PartitionOf(id) == part {
			out = append(out, id)
		}
	}
	return out
}

func (s *harness) key(id, kind string) string {
	return fmt.Sprintf("pawl:{%s.%d}:%s", s.ns, s.conn.PartitionOf(id), kind)
}

// zNow returns a wakeup of an instance that is due now.
func zNow(id string) redis.ZAddArgs {
	return redis.ZAddArgs{Members: []redis.Z{{Score: 1, Member: id}}}
}
