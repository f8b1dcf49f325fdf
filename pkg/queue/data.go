package queue

import (
	"github.com/pawlrun/pawl/internal/message"
)

// Plain data that the owner of a partition shares with this package. Package message defines and documents it (decision 62).
//
//nolint:revive // as above
type (
	InputKind   = message.InputKind
	Sender      = message.Sender
	OutEvent    = message.OutEvent
	Done        = message.Done
	Operate     = message.Operate
	Input       = message.Input
	OutInput    = message.OutInput
	Accepted    = message.Accepted
	Change      = message.Change
	Outcome     = message.Outcome
	Doorbell    = message.Doorbell
	Hint        = message.Hint
	LimitNotice = message.LimitNotice
)

// The values of these types: see package message.
const (
	KindStart          = message.KindStart
	KindEvent          = message.KindEvent
	KindCancel         = message.KindCancel
	KindPurge          = message.KindPurge
	KindDone           = message.KindDone
	KindUpdate         = message.KindUpdate
	KindOperate        = message.KindOperate
	SenderClient       = message.SenderClient
	SenderOrchestrator = message.SenderOrchestrator
)

// Errors: see package message.
var (
	ErrUnknown     = message.ErrUnknown
	ErrNoStream    = message.ErrNoStream
	ErrStreamFull  = message.ErrStreamFull
	ErrTimeout     = message.ErrTimeout
	ErrBusy        = message.ErrBusy
	ErrBadInstance = message.ErrBadInstance
	ErrBadName     = message.ErrBadName
	ErrUnknownKind = message.ErrUnknownKind
	ErrTooLarge    = message.ErrTooLarge
	ErrMalformed   = message.ErrMalformed
	ErrForged      = message.ErrForged
	ErrNewer       = message.ErrNewer
)
