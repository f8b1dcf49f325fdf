package schedule

import (
	"archive/zip"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

func read(t *testing.T, times Times) *Schedule {
	t.Helper()
	s, err := Read(times)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parsed(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// nexts returns the next times, in the zone of the schedule.
func nexts(s *Schedule, from time.Time, n int) (all []string) {
	for range n {
		next, ok := s.Next(from)
		if !ok {
			return append(all, "none")
		}
		all, from = append(all, next.In(s.zone).Format("2006-01-02 15:04:05 MST")), next
	}
	return all
}

// robfig/cron is correct wherever the offset does not change. Its days differ from cron's for a step over all values (*/2 in both day
// fields).
func TestCronLinesHaveTheTimesOfRobfigCron(t *testing.T) {
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	zone, err := time.LoadLocation("Asia/Kolkata") // an offset of 5:30 that does not change
	if err != nil {
		t.Fatal(err)
	}
	item := func(t *rapid.T, from, to int, step bool) string {
		a := rapid.IntRange(from, to).Draw(t, "a")
		b := rapid.IntRange(a, to).Draw(t, "b")
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			return fmt.Sprint(a)
		case 1:
			return fmt.Sprintf("%d-%d", a, b)
		case 2:
			return fmt.Sprintf("%d-%d/%d", a, b, rapid.IntRange(1, 7).Draw(t, "n"))
		case 3:
			if step {
				return fmt.Sprintf("*/%d", rapid.IntRange(1, to).Draw(t, "n"))
			}
			return fmt.Sprintf("%d/%d", a, rapid.IntRange(1, 5).Draw(t, "n"))
		default:
			return "*"
		}
	}
	list := func(t *rapid.T, from, to int, step bool) string {
		items := []string{item(t, from, to, step)}
		for items[0] != "*" && rapid.Bool().Draw(t, "more") {
			if more := item(t, from, to, step); more != "*" {
				items = append(items, more)
			}
		}
		return strings.Join(items, ",")
	}
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join([]string{
			list(t, 0, 59, true), list(t, 0, 59, true), list(t, 0, 23, true), list(t, 1, 31, false), list(t, 1, 12, true), list(t, 0, 6, false),
		}, " ")
		want, err := parser.Parse(line)
		if err != nil {
			t.Fatal(line, err)
		}
		s, err := Read(Times{Cron: []string{line}, Zone: "Asia/Kolkata"})
		if err != nil {
			t.Fatal(line, err)
		}
		at := time.Unix(rapid.Int64Range(1577836800, 2145916800).Draw(t, "at"), 0).In(zone)
		for range 4 {
			w := want.Next(at)
			if w.IsZero() { // robfig/cron searches five years ahead
				return
			}
			got, ok := s.Next(at)
			if !ok || !got.Equal(w) {
				t.Fatalf("%q after %s: %s, not %s", line, at, got.In(zone), w)
			}
			at = w
		}
	})
}

// zones returns one zone for each set of transitions between 2020 and 2037, with the transitions.
func zones(t *testing.T) map[*time.Location][]time.Time {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(out)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	all, seen := make(map[*time.Location][]time.Time), make(map[string]bool)
	files := 0
	for _, f := range z.File {
		zone, err := time.LoadLocation(strings.TrimSuffix(f.Name, "/"))
		if err != nil {
			continue // a directory
		}
		files++
		var at []time.Time
		key := ""
		end := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
		for next := time.Date(2020, 1, 1, 0, 0, 0, 0, zone); ; {
			if _, next = next.ZoneBounds(); next.IsZero() || next.After(end) {
				break
			}
			at = append(at, next)
			key += fmt.Sprint(next.Unix(), offsetOf(next.Add(-1)), offsetOf(next))
		}
		if !seen[key] {
			seen[key] = true
			all[zone] = at
		}
	}
	if files < 400 {
		t.Fatalf("only %d zones", files)
	}
	return all
}

// counts is the definition of the policies, minute by minute around one change of the offset. TestPoliciesHold… needs no other.
func counts(u, change time.Time, before, after time.Duration, spring, fall string) bool {
	if u.Before(change) {
		again := u.Add(before - after) // the other time with the same civil time
		return fall != "last" || after >= before || again.Before(change)
	}
	earlier := u.Add(after - before)
	return fall != "first" || after >= before || !earlier.Before(change)
}

func TestPoliciesHoldInEveryZoneFrom2020To2037(t *testing.T) {
	const step = 15 * time.Minute // all offsets are multiples of it
	transitions, checked := 0, 0
	for zone, changes := range zones(t) {
		for _, change := range changes {
			before, after := offsetOf(change.Add(-1)), offsetOf(change)
			if before == after {
				continue // only the name of the zone changes
			}
			transitions++
			for _, spring := range []string{"shift", "skip"} {
				for _, fall := range []string{"first", "last", "both"} {
					s := &Schedule{zone: zone, skip: spring == "skip", first: fall != "last", last: fall != "first"}
					often, err := cronOf("*/15 * * * *")
					if err != nil {
						t.Fatal(err)
					}
					daily := dailyAt(shows(change, min(before, after)).Add(step).Truncate(step)) // in the gap, or occurring twice
					s.calendars = []calendar{often}
					once := *s
					once.calendars = []calendar{daily}
					around := max(after-before, before-after) + step
					var want, wantOnce []time.Time
					for u := change.Add(-around).Truncate(step); u.Before(change.Add(around)); u = u.Add(step) {
						if !counts(u, change, before, after, spring, fall) {
							continue
						}
						want = append(want, u)
						gap := !u.Before(change) && after > before && u.Before(change.Add(after-before)) && spring == "shift"
						if daily.has(civil(u)) || gap && daily.has(shows(u, before)) {
							wantOnce = append(wantOnce, u)
						}
					}
					for of, want := range map[*Schedule][]time.Time{s: want, &once: wantOnce} {
						at := change.Add(-around).Truncate(step).Add(-time.Second)
						for _, w := range want {
							checked++
							next, ok := of.Next(at)
							if !ok || !next.Equal(w) {
								t.Fatalf("%s at %s, %s, %s: %s, not %s", zone, change.UTC(), spring, fall, next.In(zone), w.In(zone))
							}
							at = next
						}
						if next, ok := of.Next(at); ok && next.Before(change.Add(around)) {
							t.Fatalf("%s at %s, %s, %s: one more: %s", zone, change.UTC(), spring, fall, next.In(zone))
						}
					}
				}
			}
		}
	}
	t.Logf("%d transitions, %d times", transitions, checked)
	if transitions < 1000 {
		t.Errorf("only %d transitions", transitions)
	}
}

// After the last transition in the files of the zones, time.ZoneBounds returns an end that is not after its time on the last day of leap
// years.
func TestTimesContinueAfterTheLastTransitionOfAZoneFile(t *testing.T) {
	noon, err := cronOf("0 12 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, year := range []int{2040, 2041, 2096} {
		for zone := range zones(t) {
			s := &Schedule{zone: zone, first: true, calendars: []calendar{noon}}
			at := time.Date(year, 12, 28, 13, 0, 0, 0, zone)
			for day := 29; day < 36; day++ {
				next, ok := s.Next(at)
				if want := time.Date(year, 12, day, 12, 0, 0, 0, zone); !ok || !next.Equal(want) {
					t.Fatalf("%s: %s, not %s", zone, next.In(zone), want)
				}
				at = next
			}
		}
	}
}

func dailyAt(t time.Time) calendar {
	c, _ := cronOf(fmt.Sprintf("%d %d * * *", t.Minute(), t.Hour()))
	return c
}

func TestSchedulesHaveTheTimesOfTheirCalendars(t *testing.T) {
	for name, c := range map[string]struct {
		times Times
		from  string
		want  []string
	}{
		"29th of February": {Times{Cron: []string{"0 9 29 2 *"}}, "2026-01-01T00:00:00Z", []string{"2028-02-29 09:00:00 UTC", "2032-02-29 09:00:00 UTC"}},
		"29th of February on a Sunday": {
			Times{Calendars: []Calendar{{Day: "29", Month: "feb", Weekday: "sun"}}}, "2026-01-01T00:00:00Z",
			[]string{"2032-02-29 00:00:00 UTC", "2060-02-29 00:00:00 UTC"},
		},
		"day or weekday, as in cron": {Times{Cron: []string{"0 0 13 * fri"}}, "2026-11-10T00:00:00Z", []string{"2026-11-13 00:00:00 UTC", "2026-11-20 00:00:00 UTC"}},
		"day and weekday":            {Times{Calendars: []Calendar{{Day: "13", Weekday: "fri"}}}, "2026-11-14T00:00:00Z", []string{"2027-08-13 00:00:00 UTC"}},
		"last days":                  {Times{Calendars: []Calendar{{Day: "L,L-1", Hour: "9"}}}, "2026-02-01T00:00:00Z", []string{"2026-02-27 09:00:00 UTC", "2026-02-28 09:00:00 UTC", "2026-03-30 09:00:00 UTC"}},
		"second and last Friday":     {Times{Cron: []string{"0 9 * * fri#2,friL"}}, "2026-11-01T00:00:00Z", []string{"2026-11-13 09:00:00 UTC", "2026-11-27 09:00:00 UTC", "2026-12-11 09:00:00 UTC"}},
		"Sunday is 0 and 7":          {Times{Cron: []string{"0 0 * * 5-7"}}, "2026-11-20T12:00:00Z", []string{"2026-11-21 00:00:00 UTC", "2026-11-22 00:00:00 UTC", "2026-11-27 00:00:00 UTC"}},
		"every":                      {Times{Cron: []string{"@every 90m"}}, "2026-01-01T00:10:00Z", []string{"2026-01-01 01:30:00 UTC", "2026-01-01 03:00:00 UTC"}},
		"several, and exceptions": {
			Times{
				Cron: []string{"0 9 * * mon-fri", "30 12 * * *"}, Zone: "Europe/Zurich",
				Except: []Calendar{{Day: "24-26", Month: "dec"}, {Weekday: "sat", Hour: "12"}},
			}, "2026-12-23T10:00:00Z",
			[]string{"2026-12-23 12:30:00 CET", "2026-12-27 12:30:00 CET", "2026-12-28 09:00:00 CET"},
		},
		"seconds and years": {Times{Calendars: []Calendar{{Second: "*/30", Year: "2027"}}}, "2026-01-01T00:00:00Z", []string{"2027-01-01 00:00:00 UTC", "2027-01-01 00:00:30 UTC", "2027-01-02 00:00:00 UTC"}},
		"bounds":            {Times{Cron: []string{"@daily"}, From: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)}, "2026-01-01T00:00:00Z", []string{"2026-05-01 00:00:00 UTC", "2026-05-02 00:00:00 UTC", "none"}},
		"never":             {Times{Cron: []string{"0 0 31 2 *"}}, "2026-01-01T00:00:00Z", []string{"none"}},
		"all excluded":      {Times{Cron: []string{"@every 1s"}, Except: []Calendar{{}}}, "2026-01-01T00:00:00Z", []string{"none"}},
	} {
		if got := nexts(read(t, c.times), parsed(t, c.from), len(c.want)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	for _, wrong := range []Times{
		{}, {Cron: []string{"* * * *"}}, {Cron: []string{"60 * * * *"}}, {Cron: []string{"* * * * 8"}}, {Cron: []string{"5-1 * * * *"}}, {Cron: []string{"*/0 * * * *"}},
		{Cron: []string{"@every 1ms"}}, {Cron: []string{"@reboot"}}, {Cron: []string{"@daily"}, Zone: "Mars"}, {Cron: []string{"@daily"}, Zone: "Local"}, {Cron: []string{"@daily"}, Spring: "x"},
		{Cron: []string{"@daily"}, Fall: "x"}, {Calendars: []Calendar{{Day: "L-31"}}}, {Calendars: []Calendar{{Weekday: "fri#6"}}}, {Calendars: []Calendar{{Day: "Lx"}}}, {Calendars: []Calendar{{Weekday: "xL"}}},
	} {
		if _, err := Read(wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

func TestDelayIsStableAndLessThanTheInterval(t *testing.T) {
	s := read(t, Times{Cron: []string{"@every 1m"}, Jitter: 3600e9})
	at, different := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), make(map[time.Duration]bool)
	for range 100 {
		d := s.Delay("nightly", at)
		if d < 0 || d >= time.Minute || d != s.Delay("nightly", at) {
			t.Fatalf("%s at %s", d, at)
		}
		different[d] = true
		at = at.Add(time.Minute)
	}
	if len(different) < 90 || s.Delay("a", at) == s.Delay("b", at) {
		t.Errorf("%d different delays", len(different))
	}
	if d := read(t, Times{Cron: []string{"@daily"}}).Delay("x", at); d != 0 {
		t.Errorf("%s without jitter", d)
	}
}
