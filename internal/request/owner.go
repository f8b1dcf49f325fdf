package request

import "github.com/pawlrun/pawl/internal/wire"

// Owner requests a description of the owner of a partition. Reply: Ownership.
type Owner struct{}

func (*Owner) operation() operation { return opOwner }
func (*Owner) fields(*wire.Codec)   {}

// Ownership is the reply to Owner.
type Ownership struct {
	Member string // name of the orchestrator
	Host   string
	PID    int
	Since  int64 // beginning of the tenure, Unix milliseconds
	Lag    int64 // age of the oldest input that was read and is not ingested, in milliseconds
	Epoch  int64 // number of tenures of the partition so far
}

func (r *Ownership) fields(c *wire.Codec) {
	c.String(&r.Member)
	c.String(&r.Host)
	c.Count(&r.PID)
	c.Int(&r.Since)
	c.Int(&r.Lag)
	c.Int(&r.Epoch)
}
