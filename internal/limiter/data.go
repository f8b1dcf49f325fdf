package limiter

import (
	"github.com/pawlrun/pawl/internal/limit"
)

// Plain data that the owner of a partition uses, too. Package limit documents it (decision 62).
//
//nolint:revive // as above
type (
	Entry        = limit.Entry
	AdmitRequest = limit.AdmitRequest
	Kind         = limit.Kind
	Verdict      = limit.Verdict
	AdmitReply   = limit.AdmitReply
	Member       = limit.Member
	SweepReply   = limit.SweepReply
	Orphan       = limit.Orphan
	InForce      = limit.InForce
	Overrides    = limit.Overrides
)

// The values of these types: see package limit.
const (
	Admitted      = limit.Admitted
	Waiting       = limit.Waiting
	QueueFull     = limit.QueueFull
	Limited       = limit.Limited
	TimedOut      = limit.TimedOut
	Cleared       = limit.Cleared
	RetainedPlace = limit.RetainedPlace
	ActionLevel   = limit.ActionLevel
)

// Errors: see package limit.
var (
	ErrMember = limit.ErrMember
)
