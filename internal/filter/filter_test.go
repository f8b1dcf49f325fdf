package filter

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func TestWhereSelectsRows(t *testing.T) {
	row := Row{
		Attributes: map[string]Value{
			"tenant": {Text: "acme"}, "items": {Text: "5", Number: 5, Numeric: true}, "paid": {Text: "true"},
			"due": {Text: "2026-11-22T09:00:00.000Z", Number: now.UnixMilli(), Numeric: true},
		},
		ID: "order-1", Status: "failed", Stalled: "true", Orchestration: "fulfil", Code: "shop.declined", Parent: `a "b" \c`,
		Started: now.Add(-time.Hour).UnixMilli(), Updated: now.UnixMilli(), Ended: now.UnixMilli(),
	}
	for text, want := range map[string]bool{
		"": true, " \t": true,
		`orchestration = "fulfil" and status = failed and started > -24h and id starts "order-"`: true,
		`status in (completed, "failed")`:                             true,
		`STATUS In (completed) AND id = order-1`:                      false,
		`status != failed`:                                            false,
		`code = shop.declined and version = ""`:                       true,
		`code != ""`:                                                  true,
		`parent = 'a "b" \\c'`:                                        true,
		`parent starts 'a "'`:                                         true,
		`started > -30m`:                                              false,
		`started >= 2026-11-22T08:00:00Z`:                             true,
		`started > "2026-11-22T08:00:00Z"`:                            false,
		`started <= 2026-11-22T09:00:00+01:00`:                        true,
		`ended < -0s`:                                                 false,
		`updated > -7d and updated >= 2026-11-22`:                     true,
		`tenant in (acme, b) and items = 5 and paid = true`:           true,
		`items > 4 and items <= 5 and items != 6 and items in (5, 7)`: true,
		`items > 5`:                                  false,
		`items < "-3" and tenant = acme`:             false,
		`due = 2026-11-22T10:00:00+01:00`:            true,
		`due > -1h and due <= 2026-11-23`:            true,
		`due < +2h and due >= +0s`:                   true,
		`due > +1d`:                                  false,
		`Tenant = acme`:                              false,
		`tenant > 3`:                                 false,
		`other < 3`:                                  false,
		`other = "" and other != x`:                  true,
		"id starts order-and\nand orchestration = x": false,
		`stalled = true`:                             true,
		`unanswered = true`:                          false,
	} {
		w, err := Parse(text, now)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := w.Match(&row); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	w, _ := Parse("ended < 2026-11-23 and started > -1h", now)
	if w.Match(&Row{Started: now.UnixMilli()}) {
		t.Error("an unset end matches a comparison")
	}
	if got := w.String() + "; " + w.Fixed().String(); got != "ended < 2026-11-23T00:00:00.000Z and started > -1h; ended < 2026-11-23T00:00:00.000Z and started > 2026-11-22T08:00:00.000Z" {
		t.Error(got)
	}
	if got := w.Is(Status, "failed").Without(Ended).On(Status, Ended).String(); got != "status = failed" {
		t.Error(got)
	}
}

// An error names the column and the expected syntax.
func TestErrorsNameTheColumn(t *testing.T) {
	for text, want := range map[string]string{
		`stat = failed`:                         `column 1: expected a field, got "stat"; the fields are status,`,
		`Statuss = failed`:                      `column 1: expected a field`,
		`tenant > b`:                            `column 10: "b" is not a time`,
		`status failed`:                         `column 8: expected =, !=, in or starts after status, got "failed"`,
		`status = faild`:                        `column 10: "faild" is not a status; they are pending,`,
		`id = "é" or id = b`:                    `column 10: expected "and" or the end, got "or"; values of one field are listed with in (…)`,
		`id = a and`:                            `column 11: a term is missing after and`,
		`id = "a`:                               `column 6: the quote is not closed`,
		`id in a`:                               `column 7: expected ( after in`,
		`id in (a b)`:                           `column 10: expected , or ), got "b"`,
		`id in (`:                               `column 8: expected a value of id, got the end`,
		`id = (`:                                `column 6: expected a value of id`,
		`id "=" b`:                              `column 4: expected =`,
		`started = -1h`:                         `column 9: expected <, <=, > or >= after started`,
		`started > 24h`:                         `column 11: "24h" is not a time; write -24h`,
		`due < +`:                               `column 7: "+" is not a time`,
		`due < -+1h`:                            `column 7: "-+1h" is not a time`,
		`unanswered = false`:                    `column 14: "false" is not a value of unanswered; write unanswered = true`,
		`unanswered != true`:                    `column 12: expected = after unanswered`,
		`stalled = false`:                       `column 11: "false" is not a value of stalled; write stalled = true`,
		`stalled in (true)`:                     `column 9: expected = after stalled`,
		`started > -99999d`:                     `column 11: "-99999d" is not a time`,
		`started > 0001-01-01`:                  `is not a time`,
		`id = a;`:                               `column 7: unexpected character; put a value that contains it in quotes`,
		"id = \xff":                             `column 1: the filter is not UTF-8`,
		strings.Repeat("id=a and ", 40):         `more than 32 terms`,
		`id = ` + strings.Repeat("a", MaxBytes): `at most 4096`,
		`id in (a` + strings.Repeat(",a", maxValues) + `)`: `more than 200 values`,
	} {
		_, err := Parse(text, now)
		if _, is := errors.AsType[*Error](err); !is || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

// The indexes to read, and the period to read of them, depend on all terms.
func TestPlanFollowsFromAllTerms(t *testing.T) {
	at := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	for text, want := range map[string]struct {
		statuses    string
		final, open Span
	}{
		"":                           {"pending running paused completed failed cancelled", Span{0, maxTime}, Span{0, maxTime}},
		"code = x and updated > -1h": {"failed", Span{at(-time.Hour), maxTime}, Span{0, maxTime}},
		"code != x and status != running and updated <= -1h": {"pending paused completed failed cancelled", Span{0, at(-time.Hour)}, Span{0, at(-time.Hour)}},
		"status in (failed, running) and ended > -2h":        {"failed", Span{at(-2 * time.Hour), maxTime}, Span{0, maxTime}},
		"started > -1h and started < -30m":                   {"pending running paused completed failed cancelled", Span{at(-2 * time.Hour), maxTime}, Span{at(-2 * time.Hour), maxTime}},
	} {
		w, err := Parse(text, now)
		if err != nil {
			t.Fatal(err)
		}
		var can []string
		for _, s := range Statuses() {
			if w.Has(s, !slices.Contains([]string{"pending", "running"}, s)) {
				can = append(can, s)
			}
		}
		if got := strings.Join(can, " "); got != want.statuses || w.StatusSince(true) != want.final || w.StatusSince(false) != want.open {
			t.Errorf("%s: %s, %v, %v", text, got, w.StatusSince(true), w.StatusSince(false))
		}
	}
	w, _ := Parse("id in (a, b) and status = failed", now)
	if ids, ok := w.Exactly(ID); !ok || !slices.Equal(ids, []string{"a", "b"}) {
		t.Error(ids)
	}
}

// A parsed filter is formatted as a text that parses to the same filter, and a row that passes it is within its plan.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`status = failed and id starts 'order-"'`, `started > -24h and code in ("", a)`, `parent != "and" and ended <= 2026-01-02T03:04:05.678Z`, `items > 5 and due < -3h and tenant in (a, b)`, `due < +3h and unanswered = true and stalled = "true"`, `id="`,
		strings.Repeat("x", MaxBytes), strings.Repeat("\xff", MaxBytes), `status = "` + strings.Repeat("\x00", 1000) + `"`,
	} {
		f.Add(text, "order-1", int64(1_795_000_000_000))
	}
	f.Fuzz(func(t *testing.T, text, value string, ms int64) {
		w, err := Parse(text, now)
		if err != nil {
			if _, typed := errors.AsType[*Error](err); w != nil || !typed || len(err.Error()) > 1000 {
				t.Errorf("Parse returned %v and %T of %d bytes", w, err, len(err.Error()))
			}
			return
		}
		for _, written := range []Where{w, w.Fixed()} {
			again, err := Parse(written.String(), now)
			if err != nil && len(written.String()) <= MaxBytes {
				t.Fatalf("%q became %q: %v", text, written, err)
			}
			if err == nil && again.Fixed().String() != w.Fixed().String() {
				t.Fatalf("%q became %q, then %q", text, written, again)
			}
		}
		ms = max(ms, 1) % maxTime
		for _, status := range Statuses() {
			r := Row{ID: value, Status: status, Orchestration: value, Version: value, Parent: value, Started: ms, Updated: ms + 5}
			final := status != "running" && status != "pending"
			if final {
				r.Ended = r.Updated
			}
			if status == failed {
				r.Code = value
			}
			since := r.Updated
			if !final {
				since = ms
			}
			if plan := w.StatusSince(final); w.Match(&r) && (!w.Has(status, final) || since < plan.From || since > plan.Until) {
				t.Errorf("%q passes %+v, which is not in its plan %+v", w, r, plan)
			}
		}
	})
}
