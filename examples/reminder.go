package examples

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// A customer is reminded of an invoice at growing intervals, until the invoice is paid or all reminders are sent.
var (
	Collect = pawl.NewOrchestration[Invoice, Payment]("collect-invoice")
	Remind  = pawl.NewActivity[Reminder, pawl.None]("remind")
	Paid    = pawl.NewEvent[Payment]("paid")

	ErrUnpaid = pawl.NewError("unpaid")
)

// Invoice is an invoice to a customer.
type Invoice struct {
	ID        string          `json:"id"`
	Intervals []time.Duration `json:"intervals"` // before each reminder, and after the last
}

// Reminder is one reminder.
type Reminder struct {
	Invoice string `json:"invoice"`
	Number  int    `json:"number"` // from 1
}

// Payment reports that the invoice is paid.
type Payment struct {
	Cents int64 `json:"cents"`
}

func collect(ctx *pawl.Context, in Invoice) (Payment, error) {
	paid := Paid.Next(ctx) // one wait for the whole loop, so no payment is missed between two reminders
	for i, interval := range in.Intervals {
		due := pawl.After(ctx, interval)
		first, err := pawl.Any(ctx, paid, due) // Select would withdraw the wait for the payment
		if err != nil {
			return Payment{}, err
		}
		if first == paid {
			due.Cancel("paid")
			return paid.Get(ctx)
		}
		if i == len(in.Intervals)-1 {
			break
		}
		if _, err := Remind.Call(ctx, Reminder{Invoice: in.ID, Number: i + 1}, pawl.Retry{}); err != nil {
			return Payment{}, err
		}
	}
	return Payment{}, ErrUnpaid
}

func remind(context.Context, Reminder) (pawl.None, error) { return pawl.None{}, nil }
