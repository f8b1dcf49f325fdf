// Package late is what pawlvet's own test runs it on.
package late

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/cmd/pawlvet/testdata/late/when"
)

// Close is an orchestration.
var Close = pawl.NewOrchestration[pawl.None, bool]("close")

// Bound is bound to one that looks at the clock.
var Bound = Close.Do(func(ctx *pawl.Context, _ pawl.None) (bool, error) {
	_, err := pawl.SideEffect(ctx, func() (time.Time, error) { return time.Now(), nil })
	return when.Late(), err
})
