package history

import "github.com/pawlrun/pawl/internal/wire"

// WireFields describes the position as fields of a message.
func (p *Position) WireFields(c *wire.Codec) { c.Uint(&p.Seq); c.Int(&p.Time) }

// WireFields describes the payload as fields of a message.
func (p *Payload) WireFields(c *wire.Codec) { c.String(&p.Type); c.Bytes(&p.Data) }

// WireFields describes the failure as fields of a message.
func (f *Failure) WireFields(c *wire.Codec) {
	c.String(&f.Code)
	c.String(&f.Message)
	f.Data.WireFields(c)
	c.Bool(&f.Permanent)
	c.String(&f.Stack)
	wire.List(c, &f.Also, (*wire.Codec).String)
}

// WireFields describes the policy as fields of a message, including its pause.
func (p *Policy) WireFields(c *wire.Codec) {
	p.declared(c)
	c.Bool(&p.Paused)
	c.String(&p.PausedBy)
	c.String(&p.PausedFor)
	c.Int(&p.PausedAt)
}

// declared describes the fields that code can declare: all but the pause.
func (p *Policy) declared(c *wire.Codec) {
	wire.Number(c, &p.Concurrency)
	wire.Number(c, &p.Rate)
	c.Int(&p.RateWindow)
	c.Uint(&p.Quota)
	c.Int(&p.QuotaWindow)
	c.String(&p.Key)
	wire.Number(c, &p.QueueLimit)
	c.Int(&p.QueueTimeout)
	c.Bool(&p.Reject)
}
