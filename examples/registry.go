package examples

import (
	"slices"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples/audit"
)

// Orchestrations returns the bindings of an orchestrator that runs the examples.
func Orchestrations() []pawl.OrchestrationBinding {
	return slices.Concat([]pawl.OrchestrationBinding{
		Hello.Do(hello),
		Fulfil.Do(fulfil),
		Chain.Do(chain),
		FanOut.Do(fanOut),
		Burst.Do(burst),
		Wait.Do(wait),
		Race.Do(race),
		FetchReport.Do(fetchReport),
		Collect.Do(collect),
		Expense.Do(approve),
		Buy.Do(buy),
		Ship.Do(ship),
		Parcel.Do(shipParcel),
		Counter.Do(count),
		Tenant.Do(tenant),
		Bill.Do(bill),
		Welcome.Do(welcomeByLetter, pawl.Version("1")),
		Welcome.Do(welcomeByMail, pawl.Version("2")),
		Renew.Do(renew),
	}, audit.Orchestrations())
}

// Activities returns the bindings of a worker that runs the examples.
func Activities() []pawl.ActivityBinding {
	return slices.Concat([]pawl.ActivityBinding{
		Greet.Do(greet),
		Reserve.Do(reserve),
		Release.Do(release),
		Charge.Do(charge),
		Step.Do(step),
		Piece.Do(piece),
		Hare.Do(run),
		Tortoise.Do(run),
		Download.Do(download),
		Remind.Do(remind),
		Ask.Do(ask),
		Quote.Do(quote),
		HandOver.Do(handOver),
		BringBack.Do(bringBack),
		Debit.Do(debit),
		Letter.Do(send),
		Mail.Do(send),
		Reprice.Do(reprice),
		Announce.Do(announce),
	}, audit.Activities())
}
