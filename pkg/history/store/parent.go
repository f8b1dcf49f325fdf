package store

import (
	"errors"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// bornText is the field of a birth: sequence and time, such as 3.1790000000123456789.
func bornText(p history.Position) string { return num(p.Seq) + "." + num(p.Time) }

func parseBorn(text string) (history.Position, error) {
	seq, at, err := parsePair(text)
	return history.Position{Seq: seq, Time: int64(at)}, err //nolint:gosec // written from a positive int64
}

// parentText is the field of a parent: its instance, birth, execution and event, the effect id of the start, and the gates
// that are held, if any, with spaces between them. An instance id and an effect id hold none; the gates are the rest.
func parentText(p *history.Parent) string {
	parts := []string{p.Instance, bornText(p.Born), num(p.Execution), num(p.Event), p.Effect}
	if p.Holds != "" {
		parts = append(parts, p.Holds)
	}
	return strings.Join(parts, " ")
}

var errNoParent = errors.New("not the place of a parent")

func parseParent(text string) (*history.Parent, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nobody's child
	}
	f := strings.SplitN(text, " ", 6)
	if len(f) < 5 || f[0] == "" {
		return nil, errNoParent
	}
	p := &history.Parent{Instance: f[0], Effect: f[4]}
	if len(f) > 5 {
		p.Holds = f[5]
	}
	var bad [3]error
	p.Born, bad[0] = parseBorn(f[1])
	p.Execution, bad[1] = strconv.ParseUint(f[2], 10, 64)
	p.Event, bad[2] = strconv.ParseUint(f[3], 10, 64)
	return p, errors.Join(bad[:]...)
}
