package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// field is one field of a calendar, with its range and the names of its values.
type field struct {
	name     string
	min, max int
	names    []string // names of min, min+1, …
}

// The fields, in the order of a cron line with six fields.
var fields = struct{ second, minute, hour, day, month, weekday, year field }{
	second: field{name: "second", max: 59},
	minute: field{name: "minute", max: 59},
	hour:   field{name: "hour", max: 23},
	day:    field{name: "day", min: 1, max: 31},
	month: field{name: "month", min: 1, max: 12, names: []string{
		"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
	}},
	weekday: field{name: "weekday", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}, // 7 is Sunday, too
	year:    field{name: "year", min: 1970, max: 2199},
}

// span is a part of a list: a range with a step.
type span struct{ from, to, step int }

// spans parses a list such as 1,5-10,*/15 or mon-fri. special parses items that only this field has, and reports whether the item was
// one.
func (f field) spans(text string, special func(item string) (bool, error)) ([]span, error) {
	var all []span
	for item := range strings.SplitSeq(text, ",") {
		if is, err := special(item); err != nil {
			return nil, err
		} else if is {
			continue
		}
		s, err := f.span(item)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (f field) span(item string) (s span, err error) {
	text, step, stepped := strings.Cut(item, "/")
	from, to, ranged := strings.Cut(text, "-")
	s = span{f.min, f.max, 1}
	if f.name == "weekday" {
		s.to = 6
	}
	if text != "*" && text != "?" {
		if s.from, err = f.value(from); err != nil {
			return s, err
		}
		switch {
		case ranged:
			s.to, err = f.value(to)
		case !stepped:
			s.to = s.from
		}
	}
	if err == nil && stepped {
		if s.step, err = strconv.Atoi(step); err != nil || s.step < 1 {
			err = fmt.Errorf("%s %.60q: the step must be a positive number", f.name, item)
		}
		s.step = min(s.step, f.max+1) // any longer step selects only the first value; a sum with it must not overflow
	}
	if err == nil && s.from > s.to {
		err = fmt.Errorf("%s %.60q: the range ends before it begins", f.name, item)
	}
	return s, err
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%s %.60q: must be %d to %d%s", f.name, text, f.min, f.max, f.named())
	}
	return n, nil
}

func (f field) named() string {
	if f.names == nil {
		return ""
	}
	return " or " + f.names[0] + " to " + f.names[len(f.names)-1]
}

func plain(string) (bool, error) { return false, nil }

// set parses a list into bits.
func (f field) set(text string, special func(item string) (bool, error)) (uint64, error) {
	all, err := f.spans(text, special)
	var set uint64
	for _, s := range all {
		for n := s.from; n <= s.to; n += s.step {
			set |= 1 << n
		}
	}
	return set, err
}

// nextBit returns the lowest member of the set that is at least n, or -1 if there is none.
func nextBit(set uint64, n int) int {
	if set >>= n; n > 63 || set == 0 {
		return -1
	}
	return n + bits.TrailingZeros64(set)
}
