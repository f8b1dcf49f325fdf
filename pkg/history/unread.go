package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// UnreadEvents is the number of events of one name that an instance had not received when it ended.
type UnreadEvents struct {
	Event string `json:"event"` // name; empty: all names that are not listed
	Count uint64 `json:"count"`
}

// maxUnreadNames is the maximum number of names that CountUnread lists: any client may send events of any name.
const maxUnreadNames = 10

// CountUnread counts events by name: the ten most frequent names in descending order, then all others together.
func CountUnread(names []string) []UnreadEvents {
	counts := make(map[string]uint64)
	for _, name := range names {
		counts[name]++
	}
	var all []UnreadEvents
	for name, n := range counts {
		all = append(all, UnreadEvents{Event: name, Count: n})
	}
	slices.SortFunc(all, func(a, b UnreadEvents) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Event, b.Event))
	})
	if len(all) > maxUnreadNames {
		var others uint64
		for _, u := range all[maxUnreadNames:] {
			others += u.Count
		}
		all = append(all[:maxUnreadNames], UnreadEvents{Count: others})
	}
	return all
}

// FormatUnread formats the counts as one line.
func FormatUnread(all []UnreadEvents) string {
	parts := make([]string, len(all))
	for i, u := range all {
		parts[i] = fmt.Sprint(u.Count, " ", cmp.Or(u.Event, "of other names"))
	}
	return strings.Join(parts, ", ")
}
