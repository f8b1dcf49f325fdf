// Package shop stands between an orchestration and the clock.
package shop

import (
	"context"

	"example.org/clock"
	"github.com/pawlrun/pawl"
)

type Shop struct{}

// Open is far away from what it reaches.
func (Shop) Open(day int) bool { return price(day) > 0 } // want Open:`reaches shop\.price → clock\.New → clock\.now → time\.Now`

func price(day int) int { // want price:`reaches clock\.New → clock\.now → time\.Now`
	if clock.New().Zero() {
		return 0
	}
	return day
}

// Sell is orchestration code, and reported here; those who call it need not know.
func Sell(ctx *pawl.Context, day int) (int, error) {
	return price(day), nil // want `^shop\.price reaches time\.Now \(clock\.go:18\) via clock\.New → clock\.now, which returns another time at every replay; use pawl\.Now\(ctx\) \[time\]$`
}

// Work is an activity.
func (Shop) Work(_ context.Context, day int) (int, error) { return price(day), nil } // want Work:`reaches shop\.price`
