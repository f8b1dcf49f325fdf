package store

import (
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/record"
)

func parseWatermark(text string) (record.Watermark, error) {
	if text == "" {
		return record.Watermark{}, nil
	}
	execution, event, err := parsePair(text)
	return record.Watermark{Execution: execution, Event: event}, err
}

// parsePair parses two numbers separated by a dot.
func parsePair(text string) (first, second uint64, err error) {
	a, b, _ := strings.Cut(text, ".")
	if first, err = strconv.ParseUint(a, 10, 64); err == nil {
		second, err = strconv.ParseUint(b, 10, 64)
	}
	return first, second, err
}
