package partition

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultCutOff is the default of Config.CutOff.
const DefaultCutOff = 5 * time.Second

// Reach describes whether a member receives its inputs. Heartbeats carry it.
type Reach string

// The states of a member's reach. See the package documentation.
const (
	Reading  Reach = "reading"  // has received inputs for Config.CutOff, without a gap of half that time
	Unproven Reach = "unproven" // has just started or recovered, or had a gap
	CutOff   Reach = "cutoff"   // has received nothing for Config.CutOff
)

// Member is a live orchestrator, as described by its last heartbeat.
type Member struct {
	Name     string
	Reach    Reach
	Declined []int         // partitions with instances for which it lacks code or keys, ascending
	Silent   time.Duration // since its last heartbeat
}

// state encodes the reach and the declined partitions, for example "reading:3,17".
func (m Member) state() string {
	b := append([]byte(m.Reach), ':')
	for i, p := range m.Declined {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(p), 10)
	}
	return string(b)
}

// parseMember decodes a state, and the time since the last heartbeat in ms. It ignores declined partitions that are not numbers.
func parseMember(name, state, silent string) Member {
	reach, declined, _ := strings.Cut(state, ":")
	m := Member{Name: name, Reach: Reach(reach)}
	if ms, err := strconv.ParseInt(silent, 10, 64); err == nil {
		m.Silent = time.Duration(ms) * time.Millisecond
	}
	for text := range strings.SplitSeq(declined, ",") {
		if p, err := strconv.Atoi(text); err == nil {
			m.Declined = append(m.Declined, p)
		}
	}
	return m
}

// reach classifies a member that has received nothing for silent, after it had received inputs for steady without a gap.
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

// Eligible returns the members to which partitions are assigned: all except those that are cut off while another one is reading. If
// none is reading, the NATS server itself may have failed, and all members keep their partitions.
func Eligible(members []Member) []Member {
	reads := slices.ContainsFunc(members, func(m Member) bool { return m.Reach == Reading })
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return reads && m.Reach == CutOff })
}

// Owner returns the member that should own partition p, by rendezvous hashing over the members that do not decline it, or over all
// members if all of them decline it.
func Owner(members []Member, p int) string {
	var all, willing []string
	for _, m := range members {
		all = append(all, m.Name)
		if _, declined := slices.BinarySearch(m.Declined, p); !declined {
			willing = append(willing, m.Name)
		}
	}
	if len(willing) == 0 {
		willing = all
	}
	return Rendezvous(willing, p)
}

// declineFor is how long a member declines a partition. After that it may be assigned the partition, and decline it, again.
const declineFor = 10 * time.Minute

func (k *Keeper) decline(p int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.declined == nil {
		k.declined = make(map[int]time.Time)
	}
	known := k.declined[p].After(time.Now())
	if k.declined[p] = time.Now().Add(declineFor); !known {
		k.startRound()
	}
}

// declining returns the partitions that this member currently declines. The caller holds the mutex.
func (k *Keeper) declining() []int {
	maps.DeleteFunc(k.declined, func(_ int, until time.Time) bool { return !until.After(time.Now()) })
	return slices.Sorted(maps.Keys(k.declined))
}

// Reach returns the reach of this member.
func (k *Keeper) Reach() Reach {
	if k.cfg.Inputs == nil {
		return Reading
	}
	silent, steady := k.cfg.Inputs()
	return reach(silent, steady, k.cfg.CutOff)
}

// watchReach schedules an early round while some members are reading and others are not, because a member that is cut off from NATS cannot
// notify the others of its releases.
func (k *Keeper) watchReach(members []Member) {
	reads := func(m Member) bool { return m.Reach == Reading }
	lacks := func(m Member) bool { return m.Reach != Reading }
	if slices.ContainsFunc(members, reads) && slices.ContainsFunc(members, lacks) {
		k.startRoundIn(k.cfg.Renew / 4)
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

// handOverNow ends a tenure because this member is cut off, and releases its token without waiting for the actor, which may wait for
// acknowledgements that cannot arrive. Further writes of the actor are fenced; the next owner publishes what this one could not, as
// after a crash. The caller holds the mutex.
func (k *Keeper) handOverNow(t *Tenure) {
	k.busy[t.Part] = true
	delete(k.tenures, t.Part)
	t.end(ErrCutOff)
	k.actors.Go(func() { k.releaseToken(t, false) })
}
