package examples

import (
	"errors"

	"github.com/pawlrun/pawl"
)

// One instance for each tenant keeps the tenant's account. A program with something to
// report sends it with client.SendOrStart, and with the report's own number as the id
// of the message: the first report opens the account, and one that is repeated counts
// once. The account stands in the custom status. From time to time what has come
// together is sent on to a Counter, which has the sum of all tenants, and the instance
// continues as new.
var (
	Tenant = pawl.NewOrchestration[Account, Account]("tenant")
	Used   = pawl.NewEvent[Usage]("used")
	Close  = pawl.NewEvent[pawl.None]("close")
	Books  = pawl.NewStatus[Account]()
)

// AllTenants is the Counter that every tenant reports to.
const AllTenants = "all-tenants"

// ReportsAnExecution is how many reports a Tenant takes before it continues as new.
const ReportsAnExecution = 50

// Usage is a report.
type Usage struct {
	Units int `json:"units"`
}

// Account is what a tenant has used.
type Account struct {
	Units    int `json:"units"`
	Reports  int `json:"reports"`
	Unsummed int `json:"unsummed"` // units that the sum of all tenants lacks
}

func (a *Account) add(u Usage) {
	a.Units, a.Reports, a.Unsummed = a.Units+u.Units, a.Reports+1, a.Unsummed+u.Units
}

// sum sends on what has come together.
func (a *Account) sum(ctx *pawl.Context) error {
	if a.Unsummed == 0 {
		return nil
	}
	err := Add.Send(ctx, AllTenants, a.Unsummed)
	a.Unsummed = 0
	return err
}

func tenant(ctx *pawl.Context, a Account) (Account, error) {
	for range ReportsAnExecution {
		used, closing := Used.Next(ctx), Close.Next(ctx)
		first, err := pawl.Select(ctx, used, closing) // a report that came before the closing is first
		if err != nil {
			return a, err
		}
		if first == closing {
			return a, errors.Join(a.sum(ctx), Books.Set(ctx, a))
		}
		report, err := used.Get(ctx)
		if err != nil {
			pawl.Logger(ctx).Warn("not a report of usage", "error", err)
			continue
		}
		a.add(report)
		if err := Books.Set(ctx, a); err != nil {
			return a, err
		}
	}
	if err := a.sum(ctx); err != nil {
		return a, err
	}
	return Tenant.ContinueAsNew(ctx, a)
}
