package explore

import (
	"os"
	"strconv"
	"testing"
)

// Bound is how many states a search visits: PAWL_MODEL_STATES, or what the suite has time for.
func Bound(t testing.TB, most int) int {
	t.Helper()
	if s := os.Getenv("PAWL_MODEL_STATES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return most
}
