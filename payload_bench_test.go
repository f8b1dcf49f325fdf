package pawl_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
)

// basket is a typical payload of business code: names, amounts, times, a list, a map.
type basket struct {
	ID       string            `json:"id"`
	Customer buyer             `json:"customer"`
	Lines    []basketLine      `json:"lines"`
	Labels   map[string]string `json:"labels,omitempty"`
	Notes    string            `json:"notes,omitempty"`
	Created  time.Time         `json:"created"`
	Due      *time.Time        `json:"due,omitempty"`
	Cents    int64             `json:"cents"`
	Rate     float64           `json:"rate"`
	Gift     bool              `json:"gift"`
}

type buyer struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Tier  int    `json:"tier"`
}

type basketLine struct {
	SKU      string  `json:"sku"`
	Title    string  `json:"title"`
	Quantity int     `json:"quantity"`
	Cents    int64   `json:"cents"`
	Weight   float64 `json:"weight"`
}

func exampleBasket() basket {
	b := basket{
		ID: "order-2026-000142", Customer: buyer{"Ada Lovelace", "ada@example.org", 2},
		Labels: map[string]string{"channel": "web", "region": "eu-west-1", "campaign": "autumn"},
		Notes:  "Leave it with the neighbor, please.", Created: time.Date(2026, 3, 4, 5, 6, 7, 891_000_000, time.UTC),
		Cents: 129_900, Rate: 0.19, Gift: true,
	}
	for i := range 5 {
		b.Lines = append(b.Lines, basketLine{"SKU-00042-" + string(rune('A'+i)), "Analytical engine, part", i + 1, 25_980, 1.25})
	}
	return b
}

var basketActivity = pawl.NewActivity[basket, string]("basket")

// BenchmarkPayload is one payload encoded, and the same one decoded.
func BenchmarkPayload(b *testing.B) {
	payloadBench(b, "typical", basketActivity, exampleBasket())
	payloadBench(b, "small", Reserve, order)
}

func payloadBench[In, Out any](b *testing.B, name string, a pawl.Activity[In, Out], in In) {
	b.Helper()
	p := must(author.Input(a).Encode(in))
	b.Run(name+"/encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(author.Input(a).Encode(in))
		}
		b.ReportMetric(float64(len(p.Data)), "bytes")
	})
	b.Run(name+"/decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(author.Input(a).Decode(p))
		}
	})
}
