package client

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// Partition describes a partition and the orchestrator that owns it.
type Partition struct {
	Partition int
	Owner     string // name of the orchestrator; empty: no owner has answered
	Host      string
	PID       int
	Since     time.Time     // start of its tenure, by its clock
	Lag       time.Duration // age of the oldest input that it has read from INPUTS and not stored yet
	Epoch     int64         // number of tenures so far, including this one
}

// Partitions describes every partition, in order. If no owner of a partition answers within Options.OwnerTimeout, its Owner is empty, and
// the error names one such partition.
func (c fleet) Partitions(ctx context.Context) ([]Partition, error) {
	all := make([]Partition, c.client.partitions())
	sources := openAll(ctx, len(all), func(ctx context.Context, partition int, _ string) ([]struct{}, string, error) {
		var r request.Ownership
		err := c.client.requestWithin(ctx, c.client.opts.OwnerTimeout, partition, new(request.Owner), &r)
		all[partition] = Partition{
			Partition: partition, Owner: r.Member, Host: r.Host, PID: r.PID, Since: timeOf(r.Since), Lag: time.Duration(r.Lag) * time.Millisecond, Epoch: r.Epoch,
		}
		return nil, "", err
	})
	return all, missing(sources, len(all))
}
