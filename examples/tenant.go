package examples

import (
	"errors"

	"github.com/pawlrun/pawl"
)

// One instance per tenant keeps the tenant's account. A program reports usage with client.SendOrStart, using the report's own number as
// the id of the message: the first report opens the account, and a report that is resent counts once. The account is published as the
// custom status. Periodically, the collected usage is sent to a Counter, which sums up all tenants, and the instance continues as
// new.
var (
	Tenant = pawl.NewOrchestration[Account, Account]("tenant")
	Used   = pawl.NewEvent[Usage]("used")
	Close  = pawl.NewEvent[pawl.None]("close")
	Books  = pawl.NewStatus[Account]()
)

// AllTenants is the Counter that every tenant reports to.
const AllTenants = "all-tenants"

// ReportsAnExecution is the number of reports that a Tenant receives before it continues as new.
const ReportsAnExecution = 50

// Usage is a report.
type Usage struct {
	Units int `json:"units"`
}

// Account is the usage of a tenant.
type Account struct {
	Units    int `json:"units"`
	Reports  int `json:"reports"`
	Unsummed int `json:"unsummed"` // units not yet included in the sum of all tenants
}

func (a *Account) add(u Usage) {
	a.Units, a.Reports, a.Unsummed = a.Units+u.Units, a.Reports+1, a.Unsummed+u.Units
}

// sum sends the collected usage to the sum of all tenants.
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
		first, err := pawl.Select(ctx, used, closing) // a report that arrived before the closing wins
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
