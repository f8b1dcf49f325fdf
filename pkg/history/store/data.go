package store

import (
	"github.com/pawlrun/pawl/internal/record"
)

// Plain data that the owner of a partition shares with its store. Package record defines and documents it (decision 62).
//
//nolint:revive // as above
type (
	Lease          = record.Lease
	Commit         = record.Commit
	Answer         = record.Answer
	Committed      = record.Committed
	Purge          = record.Purge
	Rewind         = record.Rewind
	RewindSource   = record.RewindSource
	Wipe           = record.Wipe
	Reconciliation = record.Reconciliation
	InboxHold      = record.InboxHold
	LeaseState     = record.LeaseState
	LeaseStatus    = record.LeaseStatus
	Reconciled     = record.Reconciled
	Loaded         = record.Loaded
	Status         = record.Status
	Record         = record.Record
	Watermark      = record.Watermark
	Refusal        = record.Refusal
	Message        = record.Message
	MessageKind    = record.MessageKind
	Ingested       = record.Ingested
	DueSet         = record.DueSet
)

// The values of these types: see package record.
const (
	HoldNone        = record.HoldNone
	HoldAll         = record.HoldAll
	HoldEarly       = record.HoldEarly
	NotStalled      = record.NotStalled
	LeaseUnclaimed  = record.LeaseUnclaimed
	LeaseClaimed    = record.LeaseClaimed
	ClaimExpired    = record.ClaimExpired
	ClaimsExhausted = record.ClaimsExhausted
	LeaseMissing    = record.LeaseMissing
	LeaseRecreated  = record.LeaseRecreated
	Pending         = record.Pending
	Running         = record.Running
	Paused          = record.Paused
	RewoundMark     = record.RewoundMark
	Completed       = record.Completed
	Failed          = record.Failed
	Cancelled       = record.Cancelled
	InboxBound      = record.InboxBound
	InboxBytes      = record.InboxBytes
	EarlyBytes      = record.EarlyBytes
	EarlyTotalBytes = record.EarlyTotalBytes
	UnreadBatch     = record.UnreadBatch
	CommitBytes     = record.CommitBytes
	StartMessage    = record.StartMessage
	PlainStart      = record.PlainStart
	CancelMessage   = record.CancelMessage
	OtherMessage    = record.OtherMessage
	UpdateMessage   = record.UpdateMessage
)

// Errors: see package record.
var (
	ErrFenced     = record.ErrFenced
	ErrConflict   = record.ErrConflict
	ErrRolledBack = record.ErrRolledBack
)
