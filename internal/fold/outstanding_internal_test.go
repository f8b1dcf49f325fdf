package fold

import (
	"fmt"
	"slices"
	"testing"
)

func TestOutstandingActivitiesAreListedInOrder(t *testing.T) {
	var l outstanding[string]
	for _, id := range []uint64{7, 3, 9, 5} {
		l.Schedule(id, fmt.Sprint("activity ", id))
	}
	l.Settle(3)
	l.Settle(3) // a repeat
	if got := l.Outstanding(); !slices.Equal(got, []uint64{5, 7, 9}) || l.Len() != 3 {
		t.Errorf("outstanding %v, %d", got, l.Len())
	}
	if as, ok := l.Lookup(9); !ok || as != "activity 9" {
		t.Errorf("9 is %q, %v", as, ok)
	}
	if as, ok := l.Lookup(3); ok {
		t.Errorf("3 is still %q", as)
	}
}
