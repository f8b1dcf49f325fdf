package schedule

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// maxError is the maximum length of an error, in bytes. Errors quote what they reject, and requests may contain a megabyte.
const maxError = 2000

// FuzzRead reads the times of a schedule, which every client may send. A rejection has a bounded text. The next time of
// accepted times is after the given one, within their bounds, the same after they are encoded and decoded again, and the next one of every
// earlier time that is not before the given one.
func FuzzRead(f *testing.F) {
	const at = 1_790_000_000
	f.Add("*/15 9-17 * * mon-fri", "Europe/Zurich", "", "*", "", "", int64(at))
	f.Add("0 30 2 * * *", "America/New_York", "skip", "both", "L,L-30", "", int64(at))
	f.Add("@every 90m", "", "shift", "last", "", "fri#2,sunL", int64(-1))
	f.Add("@yearly", "Australia/Lord_Howe", "", "", "29", "2199", int64(at))
	f.Add("* * * * * *", "", "", "", "*", "*", int64(at)) // every time is excluded
	f.Add("1/9223372036854775807 * * * *", "", "", "", "1/9223372036854775806", "", int64(at))
	f.Add("@every 2562047h47m16s", "", "", "", "", "", int64(1)<<40)
	f.Add("0 0 30 2 *", "Local", "", "", "", "", int64(at))  // never
	f.Add("0 0 30 2 *", "", "", "last", "", "", int64(at-1)) // never, and every time of the calendar is excluded
	f.Add(strings.Repeat("9", 5000), strings.Repeat("Z", 5000), strings.Repeat("s", 5000), strings.Repeat("f", 5000), strings.Repeat("1", 5000), "", int64(at))
	f.Fuzz(func(t *testing.T, cron, zone, spring, fall, day, weekday string, seconds int64) {
		from := time.Unix(seconds%(1<<36), 0).UTC() // before the year 4150
		times := Times{
			Cron: []string{cron}, Zone: zone, Spring: spring, Fall: fall, Jitter: 7_000_000_000,
			Calendars: []Calendar{{Hour: "9", Day: day, Weekday: weekday}}, Except: []Calendar{{Day: day, Year: weekday}},
		}
		if seconds%2 == 0 {
			times.Except, times.Until = nil, from.AddDate(1, 0, 0)
		}
		s, err := Read(times)
		if err != nil {
			if s != nil || len(err.Error()) > maxError {
				t.Errorf("%d bytes: %.200v", len(err.Error()), err)
			}
			return
		}
		next, ok := s.Next(from)
		if again := decoded(t, times); !reflect.DeepEqual(again, s) {
			t.Errorf("%+v became %+v", s, again)
		}
		if !ok {
			return
		}
		if !next.After(from) || next.Nanosecond() != 0 || !times.Until.IsZero() && next.After(times.Until) {
			t.Errorf("%s is the next time after %s, until %s", next, from, times.Until)
		}
		between := from.Add(next.Sub(from) / 2)
		if same, ok := s.Next(between); between.Before(next) && (!ok || !same.Equal(next)) {
			t.Errorf("the next time after %s is %s, and after %s it is %s", from, next, between, same)
		}
		if d := s.Delay("id", next); d < 0 || d >= times.Jitter.Std() {
			t.Errorf("a delay of %s", d)
		}
	})
}

// decoded encodes the times and reads them again.
func decoded(t *testing.T, times Times) *Schedule {
	t.Helper()
	b, err := json.Marshal(times)
	if err != nil {
		t.Fatal(err)
	}
	var again Times
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	s, err := Read(again)
	if err != nil {
		t.Errorf("%s is not read again: %v", b, err)
	}
	return s
}

// Trap: reading a calendar without times to the end of the search for each excluded time of another calendar. A turn would take minutes.
func TestSearchAmongExcludedTimesIsFast(t *testing.T) {
	for name, times := range map[string]Times{
		"a calendar without times": {Cron: []string{"0 0 30 2 *", "* * * * * *"}},
		"many rules":               {Cron: slices.Repeat([]string{"* * * * * *"}, maxRules-2)},
		"a long list of years":     {Calendars: []Calendar{{Second: "*", Minute: "*", Hour: "*", Year: strings.Repeat("1970,", 100_000) + "2100-2199"}}},
	} {
		times.Except = []Calendar{{Hour: "0-22"}, {Hour: "23"}} // no exception contains a whole day
		begin := time.Now()
		if next, ok := read(t, times).Next(time.Unix(1_790_000_000, 0)); ok {
			t.Errorf("%s: %s", name, next)
		}
		took := time.Since(begin)
		if t.Logf("%s: %s", name, took); took > 30*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

func TestTooManyRulesAreRejected(t *testing.T) {
	if _, err := Read(Times{Cron: slices.Repeat([]string{"@daily"}, maxRules+1)}); err == nil {
		t.Error("accepted")
	}
}
