package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/queue"
)

// elsewhere measures hello on two orchestrators of which one lacks the code: instances of its partitions beside those of the other.
func (r *run) elsewhere(ctx context.Context, f *fleet, d *driver) error {
	var lacks [queue.DefaultPartitions]bool
	var err error
	if timeout := until(ctx, func() bool { // a busy machine may have moved them since
		lacks, err = f.owned(ctx, f.orchestrators[0], d.ns)
		return err == nil
	}); timeout != nil {
		return err
	}
	return r.beside(ctx, d.helloWhere("elsewhere", lacks, true), d.helloWhere("hello", lacks, false), r.opts.Instances, d, f)
}

// owned returns the partitions of an orchestrator.
func (f *fleet) owned(ctx context.Context, m *member, ns string) (all [queue.DefaultPartitions]bool, err error) {
	space := redisx.NewSpace(ns)
	for p := range all {
		name, err := f.rdb.HGet(ctx, space.Part(p).Owner(), "member").Result()
		if err != nil {
			return all, fmt.Errorf("owner of partition %d: %w", p, err)
		}
		all[p] = strings.Contains(name, fmt.Sprintf("-%d-", m.PID()))
	}
	if !slices.Contains(all[:], true) || !slices.Contains(all[:], false) {
		return all, fmt.Errorf("%s owns all partitions, or none", m.name)
	}
	return all, nil
}

// helloWhere is hello with ids of some partitions, or of the others.
func (d *driver) helloWhere(name string, in [queue.DefaultPartitions]bool, want bool) scenario {
	sc := d.scenario("hello", 1)
	begin := sc.begin
	sc.name, sc.begin = name, func(ctx context.Context, id string) (func(context.Context) error, error) {
		of := id
		for n := 0; in[queue.PartitionOf(of, queue.DefaultPartitions)] != want; n++ {
			of = id + "-" + strconv.Itoa(n)
		}
		return begin(ctx, of)
	}
	return sc
}
