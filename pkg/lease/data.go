package lease

import (
	"github.com/pawlrun/pawl/internal/message"
)

// Plain data that the owner of a partition uses, too. Package message documents it (decision 62).
//
//nolint:revive // as above
type (
	Ending   = message.Ending
	Report   = message.Report
	Reported = message.Reported
)

// The values of these types: see package message.
const (
	Stopped       = message.Stopped
	FinishedLate  = message.FinishedLate
	Abandoned     = message.Abandoned
	NeverStarted  = message.NeverStarted
	FinishedFirst = message.FinishedFirst
)
