package transport

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/pawlrun/pawl/pkg/history"
)

// noneAbove encodes that there are no ancestors with which the child is cancelled.
const noneAbove = "-"

// parentText encodes the parent of an instance as a header.
func parentText(p *history.Parent) string {
	return fmt.Sprintf("%s %d %d %d %d %s %d %s", p.Instance, p.Origin.Seq, p.Origin.Time, p.Execution, p.Event, p.Effect, p.Depth, cmp.Or(p.AncestorMarks, noneAbove))
}

// parseParent decodes a header that parentText encoded. The error is ErrMalformed or ErrBadInstance.
func parseParent(text string) (*history.Parent, error) {
	part := strings.Split(text, " ")
	if len(part) != 8 {
		return nil, fmt.Errorf("%w: %s has %d parts, want 8: instance, sequence, time, execution, event, effect, depth, above", ErrMalformed, HeaderParent, len(part))
	}
	seq, err1 := strconv.ParseUint(part[1], 10, 64)
	at, err2 := strconv.ParseInt(part[2], 10, 64)
	execution, err3 := strconv.ParseUint(part[3], 10, 64)
	event, err4 := strconv.ParseUint(part[4], 10, 64)
	depth, err5 := strconv.ParseUint(part[6], 10, 64)
	if errors.Join(err1, err2, err3, err4, err5) != nil {
		return nil, fmt.Errorf("%w: %s contains an invalid number: %.*q", ErrMalformed, HeaderParent, maxHeader, text)
	}
	p := &history.Parent{Instance: part[0], Origin: history.Position{Seq: seq, Time: at}, Execution: execution, Event: event, Effect: part[5], Depth: depth}
	if part[7] != noneAbove {
		p.AncestorMarks = part[7]
	}
	return p, checkParent(p)
}

func checkParent(p *history.Parent) error {
	if err := CheckInstance(p.Instance); err != nil {
		return fmt.Errorf("parent: %w", err)
	}
	if len(p.AncestorMarks) > maxAbove || strings.ContainsFunc(p.AncestorMarks, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: parent %s with %d bytes of ancestors", ErrMalformed, p.Instance, len(p.AncestorMarks))
	}
	if p.Execution == 0 || p.Event == 0 {
		return fmt.Errorf("%w: parent %s without execution or event", ErrMalformed, p.Instance)
	}
	if p.Origin.Seq == 0 || p.Origin.Time <= 0 { // otherwise the record of the child could not be parsed
		return fmt.Errorf("%w: parent %s without its origin (sequence %d, time %d)", ErrMalformed, p.Instance, p.Origin.Seq, p.Origin.Time)
	}
	return checkEffect(p.Effect)
}

// holdsText encodes the limits that ancestors hold as a header: on one line, truncated to the first ones if there are too many. It returns
// "" if they cannot be encoded, because the start is more important than detecting a deadlock.
func holdsText(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	for len(s) > maxHolds {
		s = s[:max(0, strings.LastIndexByte(s[:maxHolds+1], ' '))]
	}
	return s
}
