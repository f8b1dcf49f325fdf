package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// People decide about an expense: a chain of approvers is asked one after the other. After two days without an answer the next one is
// asked, but earlier approvers may still answer.
var (
	Expense  = pawl.NewOrchestration[Claim, Verdict]("approve-expense")
	Ask      = pawl.NewActivity[Question, pawl.None]("ask-approver")
	Answered = pawl.NewEvent[Verdict]("verdict")

	ErrUndecided = pawl.NewError("undecided")
)

// answerTime is the time that an approver has before the next one receives the request.
const answerTime = 48 * time.Hour

// Claim is an expense to be reimbursed.
type Claim struct {
	Cents     int64    `json:"cents"` // up to 5,000, no approval is needed
	Approvers []string `json:"approvers"`
}

// Question is sent to an approver. The verdict is sent back to Instance.
type Question struct {
	Approver string `json:"approver"`
	Cents    int64  `json:"cents"`
	Instance string `json:"instance"`
}

// Verdict is the answer of an approver.
type Verdict struct {
	By       string `json:"by"`
	Approved bool   `json:"approved"`
}

func approve(ctx *pawl.Context, in Claim) (Verdict, error) {
	if in.Cents <= 5_000 {
		return Verdict{By: "no approver", Approved: true}, nil
	}
	asked := make(map[string]bool)
	for _, approver := range in.Approvers {
		question := Question{Approver: approver, Cents: in.Cents, Instance: pawl.Instance(ctx).Instance}
		if _, err := Ask.Call(ctx, question, pawl.Retry{}); err != nil {
			return Verdict{}, fmt.Errorf("ask %s: %w", approver, err)
		}
		asked[approver] = true
		deadline := pawl.After(ctx, answerTime)
		for !deadline.Ready() {
			answer := Answered.Next(ctx)
			first, err := pawl.Any(ctx, answer, deadline)
			if err != nil {
				return Verdict{}, err
			}
			if first == deadline {
				answer.Cancel("asking the next one") // withdraws the wait
				break
			}
			verdict, err := answer.Get(ctx)
			if err != nil || !asked[verdict.By] {
				continue // not a verdict, or not from a requested approver
			}
			return verdict, nil
		}
	}
	return Verdict{}, ErrUndecided
}

func ask(context.Context, Question) (pawl.None, error) { return pawl.None{}, nil }
