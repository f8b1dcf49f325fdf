package store

import (
	"context"
)

// CheckEarly is for the tests of the scripts.
var CheckEarly = checkEarly

// CheckInSweeps is Check with at most so many keys in memory, as far as a partition has no more.
func (s *Store) CheckInSweeps(ctx context.Context, keys int) (CheckResult, error) {
	return s.check(ctx, keys, nil, nil)
}
