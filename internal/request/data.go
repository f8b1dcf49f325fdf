package request

import (
	"github.com/pawlrun/pawl/internal/message"
)

// These types are shared with the owner of a partition; package message documents them (decision 62).
//
//nolint:revive // documented in package message
type (
	Problem      = message.Problem
	Answer       = message.Answer
	CustomStatus = message.CustomStatus
)

// Values of these types; package message documents them.
const (
	StatusPending     = message.StatusPending
	StatusPurged      = message.StatusPurged
	ProblemNotFound   = message.ProblemNotFound
	ProblemNotOwner   = message.ProblemNotOwner
	ProblemBadRequest = message.ProblemBadRequest
	ProblemRefused    = message.ProblemRefused
	ProblemInternal   = message.ProblemInternal
)
