package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
)

// elsewhere measures hello on two orchestrators, one of which lacks the code. It compares the instances in the partitions of that one
// with the instances in the partitions of the other.
func (r *run) elsewhere(ctx context.Context, f *fleet, d *driver) error {
	var lacks [transport.DefaultPartitions]bool
	var err error
	if timeout := until(ctx, func() bool { // on a busy machine, partitions may just be moving
		lacks, err = f.owned(ctx, f.orchestrators[0], d.ns)
		return err == nil
	}); timeout != nil {
		return err
	}
	return r.beside(ctx, d.helloWhere("elsewhere", lacks, true), d.helloWhere("hello", lacks, false), r.opts.Instances, d, f)
}

// owned returns the partitions of an orchestrator: at least one, and not all.
func (f *fleet) owned(ctx context.Context, m *member, ns string) (all [transport.DefaultPartitions]bool, err error) {
	space := redisx.NewSpace(ns)
	for p := range all {
		name, err := f.rdb.HGet(ctx, space.Part(p).Owner(), "member").Result()
		if err != nil {
			return all, fmt.Errorf("owner of partition %d: %w", p, err)
		}
		all[p] = strings.Contains(name, fmt.Sprintf("-%d-", m.PID()))
	}
	if !slices.Contains(all[:], true) || !slices.Contains(all[:], false) {
		return all, fmt.Errorf("%s owns no partition, or all of them", m.name)
	}
	return all, nil
}

// helloWhere returns hello with ids whose partitions have the wanted value in the array.
func (d *driver) helloWhere(name string, in [transport.DefaultPartitions]bool, want bool) scenario {
	hello := d.scenario("hello", 1)
	return timed(name, hello.activities, hello.instances, func(ctx context.Context, prefix string) error {
		id := prefix
		for n := 0; in[transport.PartitionOf(id, transport.DefaultPartitions)] != want; n++ {
			id = prefix + "-" + strconv.Itoa(n)
		}
		return hello.run(ctx, id)
	})
}
