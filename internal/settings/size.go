package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. The text is a number, optionally with a unit (KiB, MiB, GiB, TiB).
type Size int64

var units = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// UnmarshalText reads the text.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for name, n := range units {
		if d, ok := strings.CutSuffix(digits, name); ok {
			digits, unit = d, n
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size: use one such as 512MiB or 1GiB", text)
	}
	*s = Size(n * unit)
	return nil
}
