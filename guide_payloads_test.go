package pawl_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pkg/history"
)

// The code of docs/guide/payloads.md.

// Money is an amount in cents. Its fields are not exported: its methods are its only encoding.
type Money struct {
	cents    int64
	currency string
}

func (m Money) MarshalJSON() ([]byte, error) {
	return json.Marshal(fmt.Sprintf("%d.%02d %s", m.cents/100, m.cents%100, m.currency))
}

func (m *Money) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	var euros, cents int64
	_, err := fmt.Sscanf(text, "%d.%d %s", &euros, &cents, &m.currency)
	m.cents = 100*euros + cents
	return err
}

type (
	Session struct{ token string }
	Cart    struct {
		Total  Money
		Shares map[string]Money
	}
	Deadline struct {
		Ordered time.Time
		Zone    string
	}
)

var (
	Weigh    = pawl.NewActivity[[]float64, float64]("weigh")
	Checkout = pawl.NewEvent[Cart]("checkout")
	Due      = pawl.NewEvent[Deadline]("due")
	Shipped  = pawl.NewEvent[Parcel]("shipped")
)

// Parcel has been changed twice. Payloads of each time decode into it.
type Parcel struct {
	To     string `json:"to"`
	Grams  int    `json:"grams"`            // since March; 0 if it was sent before
	Weight int    `json:"weight,omitempty"` // until March, in kilograms
}

func (p Parcel) grams() int {
	if p.Grams == 0 {
		return 1000 * p.Weight
	}
	return p.Grams
}

// dueDate is nine o'clock, two days later, where the customer is. The zone is a payload of its own, because a time has only its offset.
func dueDate(in Deadline) (time.Time, error) {
	zone, err := time.LoadLocation(in.Zone)
	if err != nil {
		return time.Time{}, err
	}
	y, m, d := in.Ordered.In(zone).Date()
	return time.Date(y, m, d+2, 9, 0, 0, 0, zone), nil
}

func rejected(ctx *pawl.Context, _ pawl.None) (string, error) {
	// Declared with a type that cannot be a payload: every use has this error.
	Lost := pawl.NewActivity[Session, pawl.None]("lost")
	_, errType := Lost.Call(ctx, Session{token: "t-1"})

	// Declared with a valid type, and called with a value that JSON does not have.
	_, errValue := Weigh.Call(ctx, []float64{1.5, math.NaN()})
	return fmt.Sprintf("%v\n%v", errType, errValue), nil // both match pawl.ErrUnencodable
}

func TestGuideRejectedTypesAndValues(t *testing.T) {
	const want = `activity "lost": pawl: encode pawl_test.Session: pawl_test.Session has no field that is encoded, so that its value would be lost; export its fields, or give it MarshalJSON and UnmarshalJSON
activity weigh: pawl: encode []float64[1]: JSON has no NaN; use a pointer, or a text`
	if got := orchestrate(t, rejected, pawl.None{}).result(); got != want {
		t.Errorf("%s", got)
	}
}

func TestGuidePayloadsDecode(t *testing.T) {
	cart := Cart{Total: Money{1234, "EUR"}, Shares: map[string]Money{"ada": {1200, "EUR"}, "bob": {34, "EUR"}}}
	if got := must(author.Value(Checkout).Decode(must(author.Value(Checkout).Encode(cart)))); got.Total != cart.Total || got.Shares["bob"] != cart.Shares["bob"] {
		t.Errorf("%+v", got)
	}
	in := Deadline{time.Date(2026, 3, 27, 23, 30, 0, 0, time.UTC), "Europe/Berlin"} // before the clocks change
	due, err := dueDate(must(author.Value(Due).Decode(must(author.Value(Due).Encode(in)))))
	if err != nil || due.Format(time.RFC3339) != "2026-03-30T09:00:00+02:00" {
		t.Errorf("%s, %v", due, err)
	}
	for payload, grams := range map[string]int{`{"to":"Ulm","weight":2}`: 2000, `{"to":"Ulm","grams":300}`: 300, `{"to":"Ulm","grams":1,"color":"red"}`: 1} {
		p := must(author.Value(Shipped).Decode(history.Payload{Type: history.TypeJSON, Data: []byte(payload)}))
		if p.grams() != grams || p.To != "Ulm" {
			t.Errorf("%s: %+v", payload, p)
		}
	}
}

func TestGuidePayloadsCodeIsCompiled(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "docs/guide/payloads.md"), 4, doctest.Read(t, "guide_payloads_test.go"))
}
