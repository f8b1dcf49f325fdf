package store

import (
	"errors"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// formatOrigin formats an origin as sequence and time, such as 3.1790000000123456789.
func formatOrigin(p history.Position) string { return num(p.Seq) + "." + num(p.Time) }

func parseOrigin(text string) (history.Position, error) {
	seq, at, err := parsePair(text)
	return history.Position{Seq: seq, Time: int64(at)}, err //nolint:gosec // written from a positive int64
}

// formatParent formats a parent as its instance, origin, execution, event and effect id, separated by spaces. An instance id contains
// no space; the effect id is the remainder. Held limits are stored in a separate field.
func formatParent(p *history.Parent) string {
	return strings.Join([]string{p.Instance, formatOrigin(p.Origin), num(p.Execution), num(p.Event), p.Effect}, " ")
}

var errNoParent = errors.New("not a reference to a parent")

func parseParent(text, holds string) (*history.Parent, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no parent
	}
	f := strings.SplitN(text, " ", 5)
	if len(f) < 5 || f[0] == "" {
		return nil, errNoParent
	}
	p := &history.Parent{Instance: f[0], Effect: f[4], HeldLimits: holds}
	var bad [3]error
	p.Origin, bad[0] = parseOrigin(f[1])
	p.Execution, bad[1] = strconv.ParseUint(f[2], 10, 64)
	p.Event, bad[2] = strconv.ParseUint(f[3], 10, 64)
	return p, errors.Join(bad[:]...)
}
