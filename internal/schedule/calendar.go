package schedule

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Calendar is a set of civil times: those that match every field. A field is a list of values, ranges and steps, as in cron: "0,30",
// "9-17", "*/15", "mon-fri".
type Calendar struct {
	Second  string `json:"second,omitempty"`  // 0 to 59; default "0", in Except "*"
	Minute  string `json:"minute,omitempty"`  // 0 to 59; default "0", in Except "*"
	Hour    string `json:"hour,omitempty"`    // 0 to 23; default "0", in Except "*"
	Day     string `json:"day,omitempty"`     // day of the month, 1 to 31; L is the last day, L-2 the third to last; default "*"
	Month   string `json:"month,omitempty"`   // 1 to 12, or jan to dec; default "*"
	Weekday string `json:"weekday,omitempty"` // 0 to 7, or sun to sat; fri#2 is the second Friday of the month, friL the last; default "*"
	Year    string `json:"year,omitempty"`    // 1970 to 2199; default "*"
}

// years is a set of years, from the first one that a calendar may name.
type years [230]bool

// calendar is a parsed Calendar.
type calendar struct {
	second, minute, hour, month uint64
	day, lastDays               uint64    // bit n of lastDays is the nth day before the last
	weekday                     uint64    // bits 0 to 6
	nth                         [7]uint64 // by weekday; bit n is the nth of the month, bit 0 the last
	years                       *years    // nil means all
	either                      bool      // the day or the weekday suffices, as in a cron line that restricts both
}

func (c Calendar) read(time string) (out calendar, err error) {
	parse := func(f field, text, byDefault string, special func(string) (bool, error)) (set uint64) {
		if err == nil {
			set, err = f.set(cmp.Or(strings.ToLower(text), byDefault), special)
		}
		return set
	}
	out.second = parse(fields.second, c.Second, time, plain)
	out.minute = parse(fields.minute, c.Minute, time, plain)
	out.hour = parse(fields.hour, c.Hour, time, plain)
	out.day = parse(fields.day, c.Day, "*", out.lastDay)
	out.month = parse(fields.month, c.Month, "*", plain)
	out.weekday = parse(fields.weekday, c.Weekday, "*", out.nthWeekday)
	if out.weekday&(1<<7) != 0 {
		out.weekday |= 1
	}
	if err == nil && c.Year != "" && c.Year != "*" {
		out.years, err = yearsOf(c.Year)
	}
	return out, err
}

func yearsOf(text string) (*years, error) {
	all, err := fields.year.spans(text, plain)
	var set years
	for _, s := range all {
		for y := s.from; y <= s.to; y += s.step {
			set[y-fields.year.min] = true
		}
	}
	return &set, err
}

// lastDay parses L and L-n.
func (c *calendar) lastDay(item string) (bool, error) {
	rest, is := strings.CutPrefix(item, "l")
	if !is {
		return false, nil
	}
	n := 0
	if rest != "" {
		var err error
		if n, err = strconv.Atoi(strings.TrimPrefix(rest, "-")); err != nil || rest[0] != '-' || n < 1 || n > 30 {
			return true, fmt.Errorf("day %.60q: must be L, or L-1 to L-30", item)
		}
	}
	c.lastDays |= 1 << n
	return true, nil
}

// nthWeekday parses fri#2 and friL.
func (c *calendar) nthWeekday(item string) (bool, error) {
	day, nth, is := strings.Cut(item, "#")
	n := 0
	if is {
		var err error
		if n, err = strconv.Atoi(nth); err != nil || n < 1 || n > 5 {
			return true, fmt.Errorf("weekday %.60q: a month has the 1st to the 5th of a weekday", item)
		}
	} else if day, is = strings.CutSuffix(item, "l"); !is || day == "" {
		return false, nil
	}
	w, err := fields.weekday.value(day)
	if err != nil {
		return true, err
	}
	c.nth[w%7] |= 1 << n
	return true, nil
}

// cronOf parses a line of five fields (minute hour day month weekday), or of six, with the second first.
func cronOf(line string) (calendar, error) {
	f := strings.Fields(line)
	if len(f) == 5 {
		f = append([]string{"0"}, f...)
	}
	if len(f) != 6 {
		return calendar{}, fmt.Errorf("%d fields: a line has five (minute hour day month weekday), or six, with the second first", len(f))
	}
	c, err := Calendar{Second: f[0], Minute: f[1], Hour: f[2], Day: f[3], Month: f[4], Weekday: f[5]}.read("*")
	all := func(text string) bool { return strings.HasPrefix(text, "*") || text == "?" }
	c.either = !all(f[3]) && !all(f[5])
	return c, err
}

// wholeDays reports whether the set contains all times of each of its days.
func (c *calendar) wholeDays() bool {
	return c.second == 1<<60-1 && c.minute == 1<<60-1 && c.hour == 1<<24-1
}

// has reports whether the set contains a civil time. Civil times are represented in UTC.
func (c *calendar) has(t time.Time) bool {
	return c.second>>t.Second()&1 == 1 && c.minute>>t.Minute()&1 == 1 && c.hour>>t.Hour()&1 == 1 &&
		c.month>>int(t.Month())&1 == 1 && c.hasYear(t.Year()) && c.hasDay(t)
}

func (c *calendar) hasYear(y int) bool {
	n := y - fields.year.min
	return c.years == nil || n >= 0 && n < len(c.years) && c.years[n]
}

func (c *calendar) hasDay(t time.Time) bool {
	d, w := t.Day(), t.Weekday()
	left := time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() - d
	byDay := c.day>>d&1 == 1 || c.lastDays>>left&1 == 1
	byWeekday := c.weekday>>w&1 == 1 || c.nth[w]>>((d-1)/7+1)&1 == 1 || left < 7 && c.nth[w]&1 == 1
	if c.either {
		return byDay || byWeekday
	}
	return byDay && byWeekday
}

// next returns the first civil time of the set at or after t and before the end.
func (c *calendar) next(t, end time.Time) (time.Time, bool) {
	for t.Before(end) {
		y, m, d := t.Date()
		switch {
		case !c.hasYear(y):
			t = time.Date(y+1, 1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case c.month>>int(m)&1 == 0:
			t = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case c.hasDay(t):
			if s := c.clock(t); s >= 0 {
				t = time.Date(y, m, d, 0, 0, s, 0, time.UTC)
				return t, t.Before(end)
			}
		}
		t = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
	}
	return t, false
}

// clock returns the first time of day of the set at or after that of t, in seconds, or -1 if there is none.
func (c *calendar) clock(t time.Time) int {
	h0, m0, s0 := t.Clock()
	for h := nextBit(c.hour, h0); h >= 0; h = nextBit(c.hour, h+1) {
		if h > h0 {
			m0, s0 = 0, 0
		}
		for m := nextBit(c.minute, m0); m >= 0; m = nextBit(c.minute, m+1) {
			if m > m0 {
				s0 = 0
			}
			if s := nextBit(c.second, s0); s >= 0 {
				return h*3600 + m*60 + s
			}
		}
	}
	return -1
}
