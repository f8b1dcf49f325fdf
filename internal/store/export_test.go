package store

import (
	"context"
)

// CheckEarly exports checkEarly for the tests of the scripts.
var CheckEarly = checkEarly

// CheckInSweeps is Check with at most keys keys in memory, or those of a single partition if it has more.
func (s *Store) CheckInSweeps(ctx context.Context, keys int) (CheckResult, error) {
	return s.check(ctx, keys, nil, nil)
}
