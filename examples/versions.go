package examples

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// A new customer is welcomed. There are two versions of how, bound side by side: who
// was welcomed by letter before the second came is still waited for in the first way.
var (
	Welcome   = pawl.NewOrchestration[Customer, Answer]("welcome")
	Letter    = pawl.NewActivity[Customer, pawl.None]("send-letter")
	Mail      = pawl.NewActivity[Customer, pawl.None]("send-mail")
	Confirmed = pawl.NewEvent[pawl.None]("confirmed")
)

// Customer is whom we write to.
type Customer struct {
	Name string `json:"name"`
}

// Answer is what came of it.
type Answer struct {
	To        string `json:"to"` // the last thing that we sent
	Confirmed bool   `json:"confirmed"`
}

// welcomeByLetter is version 1. It stays as it is until its last instance has ended.
func welcomeByLetter(ctx *pawl.Context, c Customer) (Answer, error) {
	return welcomeWith(ctx, Letter, c, 14*24*time.Hour)
}

// welcomeByMail is version 2: a mail, and a letter to customers that do not read it.
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
