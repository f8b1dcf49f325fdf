package effectid

import (
	"iter"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// A cancellation reaches descendants level by level, and code that starts further children may be just as fast. So from the third
// level on, each child carries the marks of the starts with which it is cancelled: its own, and those of its ancestors up to one
// that was abandoned or started in a detached scope. A child does not begin if one of these starts was cancelled. A mark is a prefix
// of an effect id; AncestorMarks contains those of the ancestors, the nearest last.
const (
	markBytes        = 11      // 66 bits
	minMarkDepth     = 3       // depth of the first level that has marks
	maxAncestorMarks = 8 << 10 // bytes; the most distant ancestors are dropped
	markSep          = ","
)

// Mark returns the mark of a child's start; "" at the first levels, which have none.
func Mark(depth uint64, effect string) string {
	if depth < minMarkDepth {
		return ""
	}
	return effect[:min(len(effect), markBytes)]
}

// Lineage returns the depth and the ancestor marks of a new child. p is the parent of the starting instance, nil if it has none;
// child is the decision that starts the new child.
func Lineage(p *history.Parent, child *history.ChildScheduled) (depth uint64, above string) {
	if p == nil {
		return 1, ""
	}
	depth = p.Depth + 1
	if child.Abandon || child.InDetachedScope {
		return depth, ""
	}
	above = p.AncestorMarks
	if mark := Mark(p.Depth, p.Effect); mark != "" {
		if above != "" {
			above += markSep
		}
		above += mark
	}
	for len(above) > maxAncestorMarks {
		_, above, _ = strings.Cut(above, markSep)
	}
	return depth, above
}

// Marks yields the marks of the starts with which the child of p is cancelled, its own first.
func Marks(p *history.Parent) iter.Seq[string] {
	return func(yield func(string) bool) {
		if mark := Mark(p.Depth, p.Effect); mark != "" && !yield(mark) || p.AncestorMarks == "" {
			return
		}
		for mark := range strings.SplitSeq(p.AncestorMarks, markSep) {
			if !yield(mark) {
				return
			}
		}
	}
}
