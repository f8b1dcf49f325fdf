package limit_test

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestLimitNameShowsKey(t *testing.T) {
	long := strings.Repeat("k", 10<<10)
	for key, want := range map[string]string{
		"":                      "charge",
		"acme":                  "charge/acme",
		"42":                    "charge/42",
		"a.b-c_d:e@f.com":       "charge/a.b-c_d:e@f.com",
		"Müller":                "charge/Müller",
		"Ünïcödé":               "charge/Ünïcödé",
		strings.Repeat("k", 64): "charge/" + strings.Repeat("k", 64),
		// Shortened and hashed:
		"}{":        "charge/__~",
		"two words": "charge/two_words~",
		"a/b":       "charge/a_b~",
		"tilde~":    "charge/tilde_~",
		"line\nend": "charge/line_end~",
		"\xff\xfe":  "charge/__~",
		"emoji 🎉 !": "charge/emoji___!~",
		long:        "charge/" + long[:32] + "~",
	} {
		got := limit.Name("charge", key)
		if strings.HasSuffix(want, "~") {
			if head, hash, _ := strings.Cut(got, "~"); head+"~" != want || len(hash) != 22 {
				t.Errorf("%.20q: %s, want %s and a hash", key, got, want)
			}
		} else if got != want {
			t.Errorf("%.20q: %s, want %s", key, got, want)
		}
		if limit.Action(got) != "charge" || (limit.Key(got) == "") != (key == "") {
			t.Errorf("%s is parsed as %q of %q", got, limit.Key(got), limit.Action(got))
		}
	}
}

func TestLimitNamesAreUniqueAndWellFormed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-c{}/ ~]{0,80}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		a, b := key.Draw(rt, "a"), key.Draw(rt, "b")
		x, y := limit.Name("act.ion", a), limit.Name("act.ion", b)
		if (a == b) != (x == y) {
			rt.Fatalf("%q and %q: %s and %s", a, b, x, y)
		}
		for _, name := range []string{x, y} {
			if strings.ContainsAny(name, "{} \n\r\t") || strings.Count(name, "/") > 1 || !utf8.ValidString(name) || len(name) > 80 {
				rt.Fatalf("%q", name)
			}
		}
		if a != "" && x == limit.Name("act.ion", limit.Key(x)) && limit.Key(x) != a {
			rt.Fatalf("%q has the limit of %q", a, limit.Key(x))
		}
	})
}

func encoded(t testing.TB, v any) history.Payload {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return history.Payload{Type: history.TypeJSON, Data: b}
}

func jsoned(text string) history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(text)}
}

func TestKeyAtDoesNotDependOnEncoder(t *testing.T) {
	type customer struct {
		ID   any      `json:"id"`
		Tags []string `json:"tags"`
	}
	type order struct {
		Customer customer       `json:"customer"`
		Lines    []customer     `json:"lines"`
		By       map[int]string `json:"by"`
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 5_000_000, time.UTC)
	for _, c := range []struct {
		path string
		pack any
		json string
		want string
	}{
		{"customer.id", order{Customer: customer{ID: "acme"}}, `{"customer":{"id":"acme"}}`, "acme"},
		{"customer.id", order{Customer: customer{ID: 42}}, `{"customer":{"id":42}}`, "42"},
		{"customer.id", order{Customer: customer{ID: 42.0}}, `{"customer":{"id":42.0}}`, "42"},
		{"customer.id", order{Customer: customer{ID: float32(42)}}, `{"customer":{"id":4.2e1}}`, "42"},
		{"customer.id", order{Customer: customer{ID: uint64(math.MaxUint64)}}, `{"customer":{"id":18446744073709551615}}`, "18446744073709551615"},
		{"customer.id", order{Customer: customer{ID: int64(math.MinInt64)}}, `{"customer":{"id":-9223372036854775808}}`, "-9223372036854775808"},
		{"customer.id", order{Customer: customer{ID: 0.5}}, `{"customer":{"id":0.50}}`, "0.5"},
		{"customer.id", order{Customer: customer{ID: float32(0.1)}}, `{"customer":{"id":0.1}}`, "0.1"},
		{"customer.id", order{Customer: customer{ID: math.Copysign(0, -1)}}, `{"customer":{"id":-0}}`, "0"},
		{"customer.id", order{Customer: customer{ID: 1e300}}, `{"customer":{"id":1e300}}`, "1e+300"},
		{"customer.id", order{Customer: customer{ID: true}}, `{"customer":{"id":true}}`, "true"},
		{"customer.id", order{Customer: customer{ID: nil}}, `{"customer":{"id":null}}`, ""},
		{"customer.id", order{Customer: customer{ID: ""}}, `{"customer":{"id":""}}`, ""},
		{"customer.id", order{Customer: customer{ID: at}}, `{"customer":{"id":"2026-03-01T12:00:00.005Z"}}`, "2026-03-01T12:00:00.005Z"},
		{"customer.none", order{}, `{"customer":{"id":1}}`, ""},
		{"customer.id.deeper", order{Customer: customer{ID: "acme"}}, `{"customer":{"id":"acme"}}`, ""},
		{"customer.tags.1", order{Customer: customer{Tags: []string{"a", "b"}}}, `{"customer":{"tags":["a","b"]}}`, "b"},
		{"customer.tags.2", order{Customer: customer{Tags: []string{"a", "b"}}}, `{"customer":{"tags":["a","b"]}}`, ""},
		{"customer.tags.-1", order{Customer: customer{Tags: []string{"a", "b"}}}, `{"customer":{"tags":["a","b"]}}`, ""},
		{"customer.tags.x", order{Customer: customer{Tags: []string{"a", "b"}}}, `{"customer":{"tags":["a","b"]}}`, ""},
		{"lines.1.id", order{Lines: []customer{{ID: 1}, {ID: 2}}}, `{"lines":[{"id":1},{"id":2}]}`, "2"},
		{"by.7", order{By: map[int]string{6: "six", 7: "seven"}}, `{"by":{"6":"six","7":"seven"}}`, "seven"},
		{"0", []string{"a"}, `["a"]`, "a"},
		{"x", "text", `"text"`, ""},
		{"", order{}, `{"":"x"}`, ""},
	} {
		if got := limit.KeyAt(c.path, encoded(t, c.pack)); got != c.want {
			t.Errorf("%s of %+v: %q, want %q", c.path, c.pack, got, c.want)
		}
		if got := limit.KeyAt(c.path, jsoned(c.json)); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.path, c.json, got, c.want)
		}
	}
	if got := limit.KeyAt("a", history.Payload{}); got != "" {
		t.Errorf("nothing at all: %q", got)
	}
	if got := limit.KeyAt("a", history.Payload{Type: "text/plain", Data: []byte(`{"a":"b"}`)}); got != "" {
		t.Errorf("a foreign type: %q", got)
	}
}

func TestListsAndObjectsAreKeysByValue(t *testing.T) {
	type v = map[string]any
	one := limit.KeyAt("k", encoded(t, v{"k": v{"a": 1, "b": []any{"x", nil, true, 2.0}}}))
	if len(one) != 22 {
		t.Fatalf("%q", one)
	}
	for _, same := range []string{`{"k":{"a":1,"b":["x",null,true,2]}}`, `{ "k" : {"b":["x",null,true,2.0], "a":1.0} }`} {
		if got := limit.KeyAt("k", jsoned(same)); got != one {
			t.Errorf("%s has another key", same)
		}
	}
	for _, other := range []string{
		`{"k":{"a":"1","b":["x",null,true,2]}}`, `{"k":{"a":1,"b":["x",null,"true",2]}}`, `{"k":{"a":1,"b":["x","",true,2]}}`,
		`{"k":{"a":1,"b":["x",null,true]}}`, `{"k":{"a":1}}`, `{"k":[]}`, `{"k":{}}`,
	} {
		if got := limit.KeyAt("k", jsoned(other)); got == one || len(got) != 22 {
			t.Errorf("%s: %q", other, got)
		}
	}
}

// Traps: deeply nested input overflows the stack, which ends the process and cannot be recovered; and an invalid length allocates
// gigabytes.
func TestGarbageHasNoKey(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
	const deep = 200_000 // exceeds the maximum stack with frames of any size
	for name, p := range map[string]history.Payload{
		"lists in lists":       jsoned(strings.Repeat("[", deep)),
		"lists under a field":  jsoned(`{"a":` + strings.Repeat("[", deep)),
		"lists before a field": jsoned(`{"b":` + strings.Repeat("[", deep)),
		"msgpack":              {Type: "application/msgpack", Data: []byte{0x81, 0xa1, 'a', 0xa1, 'b'}},
		"half of JSON":         jsoned(`{"a":"b"`),
		"JSON, nested":         jsoned(strings.Repeat(`{"a":`, deep)),
		"empty JSON":           jsoned(` `),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got := limit.KeyAt("a", p); got != "" {
			t.Errorf("%s: %q", name, got)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: took %d MB", name, n>>20)
		}
	}
	closed := jsoned(`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}")
	if got := limit.KeyAt("a", closed); len(got) != 22 {
		t.Errorf("nested and complete: %q", got)
	}
	if got := limit.KeyAt("a", jsoned(`{"a":1,"a":2}`)); got != "2" {
		t.Errorf("a repeated field: %q, want the last", got)
	}
}

func FuzzKeyAt(f *testing.F) {
	f.Add("a.b", []byte(`{"a":{"b":1}}`))
	f.Add("a.0", []byte(`{"a":[1,"x",null,1e3]}`))
	f.Add("0", []byte(`[{}]`))
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		p := history.Payload{Type: history.TypeJSON, Data: data}
		key := limit.KeyAt(path, p)
		if limit.KeyAt(path, p) != key {
			t.Error("KeyAt is not deterministic")
		}
		if name := limit.Name("a", key); strings.ContainsAny(name, "{} ") {
			t.Errorf("%q", name)
		}
		if m, err := limit.ParseMember(string(data)); err == nil && m.String() != string(data) {
			t.Errorf("%q became %q", data, m)
		}
	})
}

func TestMemberRoundTrips(t *testing.T) {
	origin := history.Position{Seq: 7, Time: 1_790_000_000_123_456_789}
	for _, m := range []limit.Member{
		{Ticket: "t", Instance: "i", Place: limit.ActivityPlace(1, 2)},
		{Ticket: limit.StartTicket("i", origin), Instance: "i", Place: limit.StartPlace(origin), HeldByAncestor: "u"},
		{Ticket: "t", Instance: "i", Place: limit.RetainedPlace},
	} {
		if got, err := limit.ParseMember(m.String()); err != nil || got != m {
			t.Errorf("%s: %+v, %v", m, got, err)
		}
	}
	for _, text := range []string{"", "t", "t i", "t i p u x", "t  p", " i p", "t i p "} {
		if m, err := limit.ParseMember(text); !errors.Is(err, limit.ErrMember) {
			t.Errorf("%q is parsed as %+v, %v", text, m, err)
		}
	}
	a, b := limit.StartTicket("i", origin), limit.StartTicket("i", history.Position{Seq: 8, Time: origin.Time})
	if len(a) != 22 || a == b || a != limit.StartTicket("i", origin) {
		t.Errorf("tickets %s and %s", a, b)
	}
}
