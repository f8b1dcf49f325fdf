package history_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/pkg/history"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestHeadersStayWithinTheirBoundsWhateverIsSet(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom([]string{"traceparent", "TraceState", "baggage", "tenant", "pawl-span"}), rapid.StringN(0, 80, 80))
	value := rapid.OneOf(rapid.Just(parent), rapid.String(), rapid.StringMatching(`[ -~]{0,600}`))
	rapid.Check(t, func(t *rapid.T) {
		var h history.Headers
		for range rapid.IntRange(0, 14).Draw(t, "n") {
			h = h.With(name.Draw(t, "name"), value.Draw(t, "value"))
		}
		declared := 0
		for n, v := range h.All() {
			if history.IsDeclared(n) {
				declared++
			}
			if again := h.With(n, v); again.Get(n) != v || strings.ContainsAny(n+v, "\n\r") {
				t.Errorf("%q: %q", n, v)
			}
		}
		if declared > history.MaxDeclaredHeaders || len(h) > 6<<10 || h.Get("pawl-span") != "" {
			t.Errorf("%d declared, %d bytes: %q", declared, len(h), h)
		}
	})
}

func FuzzTraceparentIsDroppedOrRead(f *testing.F) {
	f.Add(parent)
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := history.ParseTraceparent(s); ok && c.String() != s {
			t.Errorf("%q became %q", s, c)
		}
		history.Headers(s).Trace()
	})
}
