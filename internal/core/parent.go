package core

import "github.com/pawlrun/pawl/pkg/history"

// samePlace reports whether p and q name the same event as the one that started the child.
func samePlace(p, q *history.Parent) bool {
	return p != nil && q != nil && p.Instance == q.Instance && p.Origin == q.Origin && p.Execution == q.Execution && p.Event == q.Event
}
