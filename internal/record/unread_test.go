package record_test

import (
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestCountUnreadIsBounded(t *testing.T) {
	if got := record.CountUnread(nil); got != nil {
		t.Errorf("no events are counted as %v", got)
	}
	names := []string{"paid", "approved", "paid"}
	if got := record.FormatUnread(record.CountUnread(names)); got != "2 paid, 1 approved" {
		t.Errorf("counted as %q", got)
	}
	for i := range 20 {
		names = append(names, fmt.Sprintf("name-%02d", i))
	}
	all := record.CountUnread(names)
	if len(all) != 11 || all[0].Event != "paid" || all[10] != (history.UnreadEvents{Count: 12}) {
		t.Errorf("counted as %v", all)
	}
	if got := record.FormatUnread(all[9:]); got != "1 name-07, 12 of other names" {
		t.Errorf("formatted as %q", got)
	}
}
