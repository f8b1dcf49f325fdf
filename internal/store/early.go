package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/internal/redisx"
)

// early reads the number of bytes of early inputs by instance; the entry "" is the total.
func (s *Reader) early(ctx context.Context, part int) (map[string]string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGETALL", s.space.Part(part).Early()))
	if err != nil {
		return nil, fmt.Errorf("partition %d: read early inputs: %w", part, err)
	}
	return pairs(v)
}

// checkEarly returns the violation of the counts of early inputs, or "".
func checkEarly(bytes map[string]string) string {
	var sum, all int64
	for id, text := range bytes {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || n <= 0:
			return fmt.Sprintf("early inputs of %q have %q bytes", id, text)
		case id == "":
			all = n
		default:
			sum += n
		}
	}
	if sum != all {
		return fmt.Sprintf("early inputs have %d bytes in total, but %d are counted", sum, all)
	}
	return ""
}

// sumOfEarly returns the total over all instances.
func sumOfEarly(bytes map[string]string) (sum int64, err error) {
	for id, text := range bytes {
		if id == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("early inputs of %q have %q bytes", id, text)
		}
		sum += n
	}
	return sum, nil
}
