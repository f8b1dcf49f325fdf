package partition

import (
	"slices"
	"time"
)

// DefaultCutOff is the default of Config.CutOff.
const DefaultCutOff = 5 * time.Second

// Reach is how a member receives its inputs. Its heartbeats carry it.
type Reach string

// The states of a member's reach. See the package's doc.
const (
	Reading  Reach = "reading"  // received for Config.CutOff without a gap of half of it
	Unproven Reach = "unproven" // neither of the others: it has just started, recovered, or met a gap
	CutOff   Reach = "cutoff"   // nothing received for Config.CutOff
)

// Member is a living orchestrator, as its last heartbeat reports it.
type Member struct {
	Name  string
	Reach Reach
}

// reach classifies a member: nothing was received for silent, and before that it was for steady without a gap.
func reach(silent, steady, limit time.Duration) Reach {
	switch {
	case silent >= limit:
		return CutOff
	case silent >= limit/2 || steady < limit:
		return Unproven
	default:
		return Reading
	}
}

// Eligible returns the names of the members that partitions are assigned to, ascending: all but those that are cut off while
// another one is reading. If none is reading, the fault may be that of the server, and all keep their partitions.
func Eligible(members []Member) []string {
	reads := slices.ContainsFunc(members, func(m Member) bool { return m.Reach == Reading })
	names := make([]string, 0, len(members))
	for _, m := range members {
		if !reads || m.Reach != CutOff {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Reach returns the reach of this member.
func (k *Keeper) Reach() Reach {
	if k.cfg.Inputs == nil {
		return Reading
	}
	silent, steady := k.cfg.Inputs()
	return reach(silent, steady, k.cfg.CutOff)
}

// watchReach starts a round soon while some members are reading and others are not: a member that is cut off from NATS cannot
// notify the others of its releases.
func (k *Keeper) watchReach(members []Member) {
	reads := func(m Member) bool { return m.Reach == Reading }
	not := func(m Member) bool { return m.Reach != Reading }
	if slices.ContainsFunc(members, reads) && slices.ContainsFunc(members, not) {
		k.nudgeIn(k.cfg.Renew / 4)
	}
}

// logReach logs that this member is cut off while others are reading, and the end of that state.
func (k *Keeper) logReach(cutOff bool, partitions int) {
	switch {
	case cutOff && !k.cutOff:
		silent, _ := k.cfg.Inputs()
		k.cfg.Logger.Info("inputs cannot be read, handing over", "silent", silent.Round(time.Millisecond), "partitions", partitions)
	case !cutOff && k.cutOff:
		k.cfg.Logger.Info("inputs can be read again, taking partitions")
	}
	k.cutOff = cutOff
}

// handOverNow ends a tenure whose owner is cut off and releases its token without waiting for its actor, which may wait for
// acknowledgements that cannot come. Further writes of the actor are fenced; the next owner repairs what it could not publish, as
// after a crash. The mutex is held.
func (k *Keeper) handOverNow(t *Tenure) {
	k.busy[t.Part] = true
	delete(k.tenures, t.Part)
	t.end(ErrCutOff)
	k.actors.Go(func() { k.releaseToken(t, false) })
}
