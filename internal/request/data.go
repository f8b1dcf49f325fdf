package request

import (
	"github.com/pawlrun/pawl/internal/message"
)

// Plain data that the owner of a partition shares: see package message, which documents it (decision 62).
//
//nolint:revive // as above
type (
	Problem      = message.Problem
	Answer       = message.Answer
	CustomStatus = message.CustomStatus
)

// The values of these types: see package message.
const (
	StatusPending     = message.StatusPending
	StatusPurged      = message.StatusPurged
	ProblemNotFound   = message.ProblemNotFound
	ProblemNotOwner   = message.ProblemNotOwner
	ProblemBadRequest = message.ProblemBadRequest
	ProblemRefused    = message.ProblemRefused
	ProblemInternal   = message.ProblemInternal
)
