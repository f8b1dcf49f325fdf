package examples

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// A new customer is welcomed. Two versions of the orchestration are bound side by side: instances that started before the second version
// was deployed still run the first one.
var (
	Welcome   = pawl.NewOrchestration[Customer, Answer]("welcome")
	Letter    = pawl.NewActivity[Customer, pawl.None]("send-letter")
	Mail      = pawl.NewActivity[Customer, pawl.None]("send-mail")
	Confirmed = pawl.NewEvent[pawl.None]("confirmed")
)

// Customer is the customer to welcome.
type Customer struct {
	Name string `json:"name"`
}

// Answer reports how the customer responded.
type Answer struct {
	To        string `json:"to"` // the last message sent
	Confirmed bool   `json:"confirmed"`
}

// welcomeByLetter is version 1. It does not change until its last instance has ended.
func welcomeByLetter(ctx *pawl.Context, c Customer) (Answer, error) {
	return welcomeWith(ctx, Letter, c, 14*24*time.Hour)
}

// welcomeByMail is version 2: a mail, followed by a letter to customers that do not read the mail.
func welcomeByMail(ctx *pawl.Context, c Customer) (Answer, error) {
	answer, err := welcomeWith(ctx, Mail, c, 48*time.Hour)
	if err != nil || answer.Confirmed {
		return answer, err
	}
	return welcomeWith(ctx, Letter, c, 14*24*time.Hour)
}

func welcomeWith(ctx *pawl.Context, means pawl.Activity[Customer, pawl.None], c Customer, timeout time.Duration) (Answer, error) {
	if _, err := means.Call(ctx, c, pawl.Retry{}); err != nil {
		return Answer{}, err
	}
	_, ok, err := Confirmed.ReceiveWithin(ctx, timeout)
	return Answer{To: means.Name(), Confirmed: ok}, err
}

func send(context.Context, Customer) (pawl.None, error) { return pawl.None{}, nil }
