package eventcodec

import (
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// PositionFields describes a position as fields of a message.
func PositionFields(c *wire.Codec, p *history.Position) { c.Uint(&p.Seq); c.Int(&p.Time) }

// PayloadFields describes a payload as fields of a message.
func PayloadFields(c *wire.Codec, p *history.Payload) { c.String(&p.Type); c.Bytes(&p.Data) }

// FailureFields describes a failure as fields of a message.
func FailureFields(c *wire.Codec, f *history.Failure) {
	c.String(&f.Code)
	c.String(&f.Message)
	PayloadFields(c, &f.Data)
	c.Bool(&f.Permanent)
	c.String(&f.Stack)
	wire.List(c, &f.Also, (*wire.Codec).String)
}

// PolicyFields describes a policy as fields of a message, including its pause.
func PolicyFields(c *wire.Codec, p *history.Policy) {
	declared(c, p)
	c.Bool(&p.Paused)
	c.String(&p.PausedBy)
	c.String(&p.PausedFor)
	c.Int(&p.PausedAt)
}

// declared describes the fields that code can declare: all but the pause.
func declared(c *wire.Codec, p *history.Policy) {
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
