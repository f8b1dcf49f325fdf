package schedule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/text"
)

// Times describes the times of a schedule: those of all cron lines and calendars, except those of Except. At least one line or calendar
// is required.
type Times struct {
	// Cron contains lines of five fields (minute hour day month weekday) or of six (second first); or @every with a duration of at least
	// one second; or @hourly, @daily, @weekly, @monthly or @yearly. If a line restricts both the day and the weekday, one of them
	// suffices, as in cron.
	Cron      []string      `json:"cron,omitempty"`
	Calendars []Calendar    `json:"calendars,omitempty"` // in each calendar, all fields must match
	Except    []Calendar    `json:"except,omitempty"`
	Zone      string        `json:"zone,omitempty"`   // IANA name, such as Europe/Zurich; default UTC
	Spring    string        `json:"spring,omitempty"` // shift or skip: see the package comment; default shift
	Fall      string        `json:"fall,omitempty"`   // first, last or both; default first
	Jitter    text.Duration `json:"jitter,omitzero"`  // each time is delayed by a fixed part of this; default none
	From      time.Time     `json:"from,omitzero"`    // no time is before this; default: no bound
	Until     time.Time     `json:"until,omitzero"`   // no time is after this; default: no bound
}

// horizon bounds the search: the 29th of February falls on a given weekday at least once in forty years.
const horizon = 41 * 366 * 24 * time.Hour

// maxRules is the maximum number of cron lines, calendars and exceptions together. Each is compared with every time that is excluded.
const maxRules = 1000

// maxExcluded is the maximum number of consecutive times that may be excluded one by one. With more, a schedule has no next time.
const maxExcluded = 200_000

// Schedule is a parsed Times. It is immutable.
type Schedule struct {
	calendars, except []calendar
	every             []time.Duration
	zone              *time.Location
	skip              bool // whether times in a gap are omitted
	first, last       bool // which of two occurrences counts
	jitter            time.Duration
	from, until       time.Time
}

// Read parses the times of a schedule. The error names what is wrong.
func Read(t Times) (*Schedule, error) {
	s := &Schedule{jitter: t.Jitter.Std(), from: t.From, until: t.Until, skip: t.Spring == "skip"}
	s.first, s.last = t.Fall != "last", t.Fall == "last" || t.Fall == "both"
	switch {
	case len(t.Cron)+len(t.Calendars) == 0:
		return nil, errors.New("schedule: a cron line or a calendar is required")
	case len(t.Cron)+len(t.Calendars)+len(t.Except) > maxRules:
		return nil, fmt.Errorf("schedule: more than %d cron lines, calendars and exceptions", maxRules)
	case t.Spring != "" && t.Spring != "shift" && t.Spring != "skip":
		return nil, fmt.Errorf("schedule: spring %.60q: must be shift or skip", t.Spring)
	case t.Fall != "" && t.Fall != "first" && t.Fall != "last" && t.Fall != "both":
		return nil, fmt.Errorf("schedule: fall %.60q: must be first, last or both", t.Fall)
	}
	var err error
	if s.zone, err = time.LoadLocation(t.Zone); err != nil || t.Zone == "Local" {
		return nil, fmt.Errorf("schedule: zone %.60q is not known", t.Zone)
	}
	for _, line := range t.Cron {
		if err := s.addCron(line); err != nil {
			return nil, fmt.Errorf("schedule: cron %.60q: %w", line, err)
		}
	}
	for _, c := range t.Calendars {
		read, err := c.read("0")
		if err != nil {
			return nil, fmt.Errorf("schedule: calendar: %w", err)
		}
		s.calendars = append(s.calendars, read)
	}
	for _, c := range t.Except {
		read, err := c.read("*")
		if err != nil {
			return nil, fmt.Errorf("schedule: except: %w", err)
		}
		s.except = append(s.except, read)
	}
	return s, nil
}

func (s *Schedule) addCron(line string) error {
	if d, ok := strings.CutPrefix(line, "@every "); ok {
		every, err := time.ParseDuration(strings.TrimSpace(d))
		if err != nil || every < time.Second || every%time.Second != 0 {
			return errors.New("@every needs a duration of whole seconds, at least 1s")
		}
		s.every = append(s.every, every)
		return nil
	}
	if strings.HasPrefix(line, "@") {
		full, ok := map[string]string{
			"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
			"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
		}[line]
		if !ok {
			return errors.New("must be @every, @hourly, @daily, @weekly, @monthly or @yearly")
		}
		line = full
	}
	c, err := cronOf(line)
	s.calendars = append(s.calendars, c)
	return err
}

// Next returns the first time after t, in UTC, without jitter; ok is false if there is none.
func (s *Schedule) Next(t time.Time) (next time.Time, ok bool) {
	if before := s.from.Add(-1); !s.from.IsZero() && t.Before(before) {
		t = before
	}
	search := search{Schedule: s, end: t.Add(horizon), times: make([]time.Time, len(s.calendars))}
	for range maxExcluded {
		next, ok = search.candidate(t)
		if !ok || !s.until.IsZero() && next.After(s.until) {
			return time.Time{}, false
		}
		if t = s.excluded(next); t.IsZero() {
			return next, true
		}
	}
	return time.Time{}, false
}

// Delay returns the part of the jitter by which a time is delayed. It is always the same for a schedule with the id, and shorter than the
// time until the next one.
func (s *Schedule) Delay(id string, t time.Time) time.Duration {
	limit := s.jitter
	if limit == 0 {
		return 0
	}
	if next, ok := s.Next(t); ok {
		limit = min(limit, next.Sub(t))
	}
	if limit < time.Millisecond {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(id), uint64(t.Unix())))     //nolint:gosec // any bits will do; Write never fails
	return time.Duration(h.Sum64()%uint64(limit.Milliseconds())) * time.Millisecond //nolint:gosec // positive, and smaller than limit
}

// excluded returns the time from which the search continues if t is excluded, and zero if it is not.
func (s *Schedule) excluded(t time.Time) time.Time {
	local := t.In(s.zone)
	shown := civil(local)
	for i := range s.except {
		if c := &s.except[i]; c.has(shown) {
			y, m, d := local.Date()
			if tomorrow := time.Date(y, m, d+1, 0, 0, 0, 0, s.zone).Add(-1); c.wholeDays() && tomorrow.After(t) {
				return tomorrow
			}
			return t
		}
	}
	return time.Time{}
}

// search finds the times of a schedule in their order. It remembers the next time of each calendar, so that a calendar with few or no times
// is read once, also if most times of the others are excluded.
type search struct {
	*Schedule

	end   time.Time
	times []time.Time // by calendar: its next time, or end if it has none; zero: not known yet
}

// candidate returns the first time after t according to a rule. t is not before that of the previous call.
func (s *search) candidate(t time.Time) (best time.Time, ok bool) {
	take := func(at time.Time) {
		if !ok || at.Before(best) {
			best, ok = at, true
		}
	}
	for _, d := range s.every {
		n := int64(d / time.Second)
		at := t.Unix() - t.Unix()%n
		if t.Unix() < 0 && t.Unix()%n != 0 {
			at -= n
		}
		take(time.Unix(at+n, 0).UTC())
	}
	for i := range s.calendars {
		if ok && best.Sub(t) <= time.Second { // no calendar has an earlier time
			break
		}
		if !s.times[i].After(t) {
			at, found := s.occurrence(&s.calendars[i], t, s.end)
			if !found {
				at = s.end
			}
			s.times[i] = at
		}
		if s.times[i].Before(s.end) {
			take(s.times[i])
		}
	}
	return best, ok
}

// occurrence returns the first time after t and before end that a calendar contains. Within a segment of the zone, where its offset does
// not change, civil times and times have the same order.
func (s *Schedule) occurrence(c *calendar, t, end time.Time) (time.Time, bool) {
	at := t.Truncate(time.Second).Add(time.Second)
	for at.Before(end) {
		g := segmentOf(at.In(s.zone))
		stop := end
		if !g.end.IsZero() && g.end.Before(end) {
			stop = g.end
		}
		best, found := s.within(c, g, at, stop)
		if shifted, is := g.shifted(c, at, stop); is && !s.skip && (!found || shifted.Before(best)) {
			best, found = shifted, true
		}
		if found {
			return best, true
		}
		at = stop
	}
	return time.Time{}, false
}

// within returns the first time of a segment, at or after at and before stop, whose civil time the calendar contains, not counting
// shifted times.
func (s *Schedule) within(c *calendar, g segment, at, stop time.Time) (time.Time, bool) {
	from, to := shows(at, g.offset), shows(stop, g.offset)
	if again := shows(g.start, g.before); !s.last && !g.start.IsZero() && from.Before(again) { // until then, civil times occur for the second time
		from = again
	}
	if again := shows(g.end, g.after); !s.first && !g.end.IsZero() && again.Before(to) { // from then on, civil times occur again
		to = again
	}
	shown, ok := c.next(from, to)
	return shown.Add(-g.offset), ok
}

// segment is a period in which the offset of a zone does not change.
type segment struct {
	start, end            time.Time // zero if unbounded
	before, offset, after time.Duration
}

func segmentOf(t time.Time) segment {
	g := segment{offset: offsetOf(t)}
	g.before, g.after = g.offset, g.offset
	g.start, g.end = t.ZoneBounds()
	if !g.end.IsZero() && !g.end.After(t) {
		// After the last transition in the file of a zone, ZoneBounds (Go 1.26) ends each year after 365 days, also on the last day of a
		// leap year. An end without a change of the offset is harmless.
		g.end = t.Add(24 * time.Hour)
	}
	if !g.start.IsZero() {
		g.before = offsetOf(g.start.Add(-1))
	}
	if !g.end.IsZero() {
		g.after = offsetOf(g.end)
	}
	return g
}

// shifted returns the first time, at or after at and before stop, to which a civil time in the gap at the start of the segment is
// shifted.
func (g segment) shifted(c *calendar, at, stop time.Time) (time.Time, bool) {
	if g.start.IsZero() || g.offset <= g.before {
		return time.Time{}, false
	}
	shown, ok := c.next(shows(at, g.before), shows(g.start, g.offset))
	t := shown.Add(-g.before)
	return t, ok && t.Before(stop)
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// shows returns the civil time that a clock with the offset shows.
func shows(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

func civil(t time.Time) time.Time { return shows(t, offsetOf(t)) }
