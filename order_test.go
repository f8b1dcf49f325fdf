package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

type (
	Order struct {
		ID    string `json:"id"`
		Cents int    `json:"cents"`
	}
	Hold     struct{ Ref string }
	Receipt  struct{ Number string }
	Approval struct {
		By string `json:"by"`
	}
)

var (
	Reserve  = pawl.NewActivity[Order, Hold]("reserve-stock")
	Release  = pawl.NewActivity[Hold, pawl.None]("release-stock")
	Charge   = pawl.NewActivity[Order, Receipt]("charge-card", pawl.Queue("payments"))
	Approved = pawl.NewEvent[Approval]("approved")

	ErrNotApproved = pawl.NewError("not-approved")
	ErrDeclined    = pawl.NewError("card-declined")
)

func fulfil(ctx *pawl.Context, o Order) (_ Receipt, err error) {
	hold, err := Reserve.Call(ctx, o)
	if err != nil {
		return Receipt{}, fmt.Errorf("reserve %s: %w", o.ID, err)
	}
	defer func() {
		if err != nil { // also when the order is cancelled: Detach survives that
			_, rerr := Release.Call(pawl.Detach(ctx), hold)
			err = errors.Join(err, rerr)
		}
	}()
	approval, deadline := Approved.Next(ctx), pawl.After(ctx, 24*time.Hour)
	switch first, err := pawl.Select(ctx, approval, deadline); { // losers are cancelled
	case err != nil:
		return Receipt{}, err
	case first == deadline:
		return Receipt{}, ErrNotApproved
	}
	return Charge.Call(ctx, o, pawl.Retry{Attempts: 5, Unless: []*pawl.Error{ErrDeclined}}, pawl.AttemptTimeout(30*time.Second))
}

var order = Order{ID: "order-42", Cents: 1999}

func TestOrderIsFulfilled(t *testing.T) {
	r := orchestrate(t, fulfil, order)
	if in := inputOf(r.Driver, Reserve, r.Only("reserve-stock")); in != order {
		t.Fatalf("reserve was called with %+v", in)
	}
	answer(r.Driver, Reserve, Hold{Ref: "shelf 3"})
	r.Send("approved", history.Payload{Type: history.TypeJSON, Data: []byte(`{"by":"finance"}`)})
	charge := r.History[r.Only("charge-card")-1].(*history.ActivityScheduled)
	if charge.Queue != "payments" {
		t.Fatalf("queue %q", charge.Queue)
	}
	refuse(r.Driver, Charge, errors.New("gateway is down"))
	r.Fire()
	answer(r.Driver, Charge, Receipt{Number: "R-1"})
	if got := r.result(); got.Number != "R-1" {
		t.Fatalf("result %+v", got)
	}
}

func TestOrderWithoutApprovalReleasesItsStock(t *testing.T) {
	r := orchestrate(t, fulfil, order)
	answer(r.Driver, Reserve, Hold{Ref: "shelf 3"})
	r.Fire()
	if in := inputOf(r.Driver, Release, r.Only("release-stock")); in.Ref != "shelf 3" {
		t.Fatalf("released %+v", in)
	}
	answer(r.Driver, Release, pawl.None{})
	if err := r.failure(); !errors.Is(err, ErrNotApproved) {
		t.Fatalf("failed with %v", err)
	}
}

func TestCancelledOrderReleasesItsStock(t *testing.T) {
	r := orchestrate(t, fulfil, order)
	answer(r.Driver, Reserve, Hold{Ref: "shelf 3"})
	r.Cancel("support", "customer changed her mind")
	answer(r.Driver, Release, pawl.None{})
	end, ok := r.End().(*history.Cancelled)
	if !ok || end.By != "support" {
		t.Fatalf("ended with %+v", r.End())
	}
	err := r.failure()
	var c *pawl.Cancelled
	if !errors.Is(err, context.Canceled) || !errors.As(err, &c) || c.Text != "customer changed her mind" {
		t.Fatalf("failed with %v, %+v", err, c)
	}
}

func TestDeclinedCardIsNotRetriedAndKeepsItsSentinel(t *testing.T) {
	r := orchestrate(t, fulfil, order)
	answer(r.Driver, Reserve, Hold{})
	r.Send("approved", must(author.Value(Approved).Encode(Approval{By: "finance"})))
	refuse(r.Driver, Charge, fmt.Errorf("bank: %w", ErrDeclined))
	refuse(r.Driver, Release, errors.New("shelf is missing"))
	err := r.failure()
	if !errors.Is(err, ErrDeclined) || err.Error() != "bank: card-declined\nshelf is missing" {
		t.Fatalf("failed with %v", err)
	}
}
