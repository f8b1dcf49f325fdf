package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// An order is shipped in parcels, one child each. A parcel that is recalled is cancelled, and its own code brings it back; the others
// continue. A lost parcel fails the order, which cancels the parcels that are still in transit.
var (
	Ship      = pawl.NewOrchestration[Shipment, Shipped]("ship-order")
	Parcel    = pawl.NewOrchestration[Box, Delivery]("ship-parcel")
	Recall    = pawl.NewEvent[int]("recall")       // sent to the order, with the number of a parcel
	Arrived   = pawl.NewEvent[Delivery]("arrived") // sent to the parcel by the carrier
	HandOver  = pawl.NewActivity[Box, pawl.None]("hand-over")
	BringBack = pawl.NewActivity[Box, pawl.None]("bring-back")

	ErrLost = pawl.NewError("parcel-lost")
)

// carrierTimeout is the maximum time of a parcel in transit.
const carrierTimeout = 5 * 24 * time.Hour

// Shipment lists what to ship, parcel by parcel.
type Shipment struct {
	Parcels []string `json:"parcels"`
}

// Shipped reports the state of the parcels by their numbers, counted from 1.
type Shipped struct {
	Delivered []int `json:"delivered"`
	Recalled  []int `json:"recalled"`
}

// Box is one parcel.
type Box struct {
	Content string `json:"content"`
}

// Delivery is the carrier's report.
type Delivery struct {
	To string `json:"to"`
}

func ship(ctx *pawl.Context, in Shipment) (Shipped, error) {
	parcels := make([]*pawl.Future[Delivery], len(in.Parcels))
	for i, content := range in.Parcels {
		id := fmt.Sprintf("%s:%d", pawl.Instance(ctx).Instance, i+1)
		parcels[i] = Parcel.Start(ctx, Box{Content: content}, pawl.ID(id))
	}
	recalled := make([]bool, len(parcels))
	pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
		for {
			n, err := Recall.Receive(ctx)
			switch {
			case errors.Is(err, pawl.ErrUndecodable) || err == nil && (n < 1 || n > len(parcels)):
				pawl.Logger(ctx).Warn("no such parcel to recall", "number", n, "error", err)
			case err != nil:
				return pawl.None{}, err
			default:
				recalled[n-1] = true
				parcels[n-1].Cancel("recalled")
			}
		}
	})
	var out Shipped
	for i, parcel := range parcels {
		_, err := parcel.Get(ctx)
		switch {
		case err == nil:
			out.Delivered = append(out.Delivered, i+1)
		case recalled[i] && errors.Is(err, context.Canceled):
			out.Recalled = append(out.Recalled, i+1)
		default: // lost, or cancelled for another reason, such as with the whole order
			return out, fmt.Errorf("parcel %d: %w", i+1, err)
		}
	}
	return out, nil
}

func shipParcel(ctx *pawl.Context, box Box) (_ Delivery, err error) {
	if _, err := HandOver.Call(ctx, box, pawl.Retry{}); err != nil {
		return Delivery{}, err
	}
	defer func() {
		if errors.Is(err, context.Canceled) {
			_, back := BringBack.Call(pawl.Detach(ctx), box, pawl.Retry{})
			err = errors.Join(err, back)
		}
	}()
	delivery, ok, err := Arrived.ReceiveWithin(ctx, carrierTimeout)
	if err == nil && !ok {
		err = ErrLost
	}
	return delivery, err
}

func handOver(context.Context, Box) (pawl.None, error) { return pawl.None{}, nil }

func bringBack(context.Context, Box) (pawl.None, error) { return pawl.None{}, nil }
