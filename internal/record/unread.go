package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// maxUnreadNames is the maximum number of names that CountUnread lists: any client may send events of any name.
const maxUnreadNames = 10

// CountUnread counts events by name: the ten most frequent names in descending order, then all others together.
func CountUnread(names []string) []history.UnreadEvents {
	counts := make(map[string]uint64)
	for _, name := range names {
		counts[name]++
	}
	var all []history.UnreadEvents
	for name, n := range counts {
		all = append(all, history.UnreadEvents{Event: name, Count: n})
	}
	slices.SortFunc(all, func(a, b history.UnreadEvents) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Event, b.Event))
	})
	if len(all) > maxUnreadNames {
		var others uint64
		for _, u := range all[maxUnreadNames:] {
			others += u.Count
		}
		all = append(all[:maxUnreadNames], history.UnreadEvents{Count: others})
	}
	return all
}

// FormatUnread formats the counts as one line.
func FormatUnread(all []history.UnreadEvents) string {
	parts := make([]string, len(all))
	for i, u := range all {
		parts[i] = fmt.Sprint(u.Count, " ", cmp.Or(u.Event, "of other names"))
	}
	return strings.Join(parts, ", ")
}
