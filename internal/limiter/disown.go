package limiter

import (
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Disowned is a member that no instance wants, as far as its owner knows, who was told of it.
type Orphan struct {
	Member Member
	At     int64 // when the gate said so, by its own clock, Unix ms
}

// Disown takes members out of a gate of which nothing was heard since they were told of; those that wait, or have entered anew, stay.
// So one that is carried out late takes nothing from anybody. Granted are those that the gate has let in instead.
func (g *Limiter) ReleaseOrphans(gate string, ds []Orphan, then func(AdmitReply, error)) {
	args, err := InForce{}.args(gate)
	if err != nil {
		then(AdmitReply{}, err)
		return
	}
	args = append(args, len(ds))
	for _, d := range ds {
		args = append(args, "!"+strconv.FormatInt(d.At, 10)+" "+d.Member.String())
	}
	g.run.Go(redisx.Call{Script: g.script.admit, Keys: g.keys(gate), Args: args}, func(reply any, err error) {
		var got AdmitReply
		if err == nil {
			got, _, err = readAdmitted(reply, 0)
		}
		if err != nil {
			then(AdmitReply{}, fmt.Errorf("gate %s: %w", gate, err))
			return
		}
		then(got, nil)
	})
}
