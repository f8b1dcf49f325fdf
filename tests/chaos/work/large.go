package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// large has payloads that are stored in the object store: an event from a client, and the input and the result of an
// activity.
var large = Kind{
	Name: "large", Weight: 2, Handle: handle("large"), Code: weigh, start: startLarge,
	Want: func(in Input) []string { return []string{digest(Parcel(in.Secret))} },
}

var parcels = pawl.NewEvent[string]("parcel")

// Parcel returns a text of 160 KiB that is derived from a seed and does not compress to less than half.
func Parcel(seed string) string {
	var b strings.Builder
	for n := 0; b.Len() < 160<<10; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", seed, n))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return b.String()
}

// digest returns a short form of the text for the result of the instance.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d bytes, %s", len(text), hex.EncodeToString(sum[:8]))
}

// weigh calls an activity that returns its input.
func weigh(ctx *pawl.Context, _ Input) (string, error) {
	text, err := parcels.Receive(ctx)
	if err != nil {
		return "", err
	}
	text, err = Carry.Call(ctx, text)
	return digest(text), err
}

func startLarge(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Start(ctx, c, handle("large"), id, in, client.MessageID("start"))
	if err == nil {
		err = client.Send(ctx, c, parcels, id, Parcel(in.Secret), client.MessageID("parcel"))
	}
	if err != nil {
		return nil, err
	}
	return run.Result, nil
}

// carry returns its input.
func (l Ledger) carry(ctx context.Context, text string) (string, error) {
	return text, l.run(ctx, "carry", "", 0)
}
