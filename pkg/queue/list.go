package queue

import (
	"fmt"
	"strconv"
	"strings"
)

// ListFilter selects instances of a listing.
type ListFilter struct {
	Orchestration string // "": all
	Prefix        string // of the id
	Since, Before int64  // started at or after, and before; Unix milliseconds; 0: any time
}

// ListCursor is the place of an instance in a listing of OpList: the same in every partition.
func ListCursor(updated int64, instance string) string {
	return strconv.FormatInt(updated, 10) + "." + instance
}

// ParseListCursor reads a ListCursor. The empty cursor is the beginning.
func ParseListCursor(cursor string) (updated int64, instance string, _ error) {
	if cursor == "" {
		return 0, "", nil
	}
	at, instance, _ := strings.Cut(cursor, ".")
	updated, err := strconv.ParseInt(at, 10, 64)
	if err != nil || CheckInstance(instance) != nil {
		return 0, "", fmt.Errorf("cursor %.40q is not one that a listing gave", cursor)
	}
	return updated, instance, nil
}
