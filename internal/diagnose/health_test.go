package diagnose_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
)

func TestLatencyHasTwoDigitsAndNoExponent(t *testing.T) {
	for d, want := range map[time.Duration]string{
		120 * time.Microsecond:  "0.12 ms",
		1234 * time.Microsecond: "1.2 ms",
		9960 * time.Microsecond: "10 ms",
		130 * time.Millisecond:  "130 ms",
	} {
		if got := diagnose.Latency(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestRedisInMemoryIsDescribedWithoutFigures(t *testing.T) {
	const want = "runs in memory, answers in 0.1 ms"
	if got := diagnose.Redis(client.RedisHealth{Latency: 100 * time.Microsecond}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
