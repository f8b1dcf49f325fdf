package client

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// Partition describes a partition and the orchestrator that owns it.
type Partition struct {
	Partition int
	Owner     string // name of the orchestrator; empty: none has answered
	Host      string
	PID       int
	Since     time.Time     // when it became the owner, by its clock
	Lag       time.Duration // age of the oldest input that it has read and not stored
	Epoch     int64         // number of owners so far
}

// Partitions describes every partition, in order. A partition without an owner that answers within Options.OwnerTimeout has no Owner; then
// the error names one of them.
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
