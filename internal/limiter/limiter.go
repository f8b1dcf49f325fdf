package limiter

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

//go:embed common.lua
var commonLua string

//go:embed admit.lua
var admitLua string

//go:embed register.lua
var registerLua string

//go:embed sweep.lua
var sweepLua string

//go:embed clear.lua
var clearLua string

//go:embed stats.lua
var statsLua string

//go:embed waiters.lua
var waitersLua string

//go:embed snapshot.lua
var snapshotLua string

//go:embed schedule.lua
var scheduleLua string

//go:embed reschedule.lua
var rescheduleLua string

//go:embed orphans.lua
var orphansLua string

//go:embed policies.lua
var policiesLua string

//go:embed policy.lua
var policyLua string

//go:embed bump_version.lua
var bumpVersionLua string

type scripts struct {
	admit, register, sweep, clear, stats, waiters, snapshot, schedule, reschedule, orphans, policies, policy, bumpVersion *redisx.Script
}

// Limiter runs the scripts of the limits of a namespace. Its methods are safe for concurrent use. Those with a callback send and
// return; the callback is called exactly once, on a goroutine that it must not block.
type Limiter struct {
	run       *redisx.Runner
	space     redisx.Space
	partition func(name string) int
	script    scripts

	mu         sync.Mutex
	pipelines  map[string]*pipeline // limits with an outstanding script of this process
	scheduled  map[string]time.Time // when this process has set the wakeup of a limit, for scheduledFor
	pruned     time.Time            // when scheduled was last cleaned up
	registered map[string]struct{}  // actions with keys whose own limits this process has registered
}

// New makes the limiter of a key space. The runner stays the caller's to close, which ends outstanding calls. partition returns
// the partition of the name of a limit or of an instance.
func New(run *redisx.Runner, space redisx.Space, partition func(name string) int) *Limiter {
	return &Limiter{
		run: run, space: space, partition: partition,
		pipelines: make(map[string]*pipeline), scheduled: make(map[string]time.Time), registered: make(map[string]struct{}),
		script: newScripts(),
	}
}

// limitKeys are the keys of every script about one limit: see common.lua.
const limitKeys = "waiters holders rejected grants state"

func newScripts() scripts {
	return scripts{
		admit: redisx.NewScript("limit-admit", commonLua, admitLua,
			limitKeys,
			"version policy declared keyed | leave* entry*"),
		register: redisx.NewScript("limit-register", commonLua, registerLua,
			limitKeys,
			"version policy declared"),
		sweep: redisx.NewScript("limit-sweep", commonLua, sweepLua,
			limitKeys,
			"version policy declared keyed"),
		clear: redisx.NewScript("limit-clear", commonLua, clearLua,
			limitKeys,
			"last"),
		stats: redisx.NewScript("limit-stats", commonLua, statsLua,
			limitKeys,
			"member version policy declared"),
		waiters: redisx.NewScript("limit-waiters", "", waitersLua,
			"waiters",
			"skip last"),
		snapshot: redisx.NewScript("limit-snapshot", "", snapshotLua,
			"waiters holders rejected grants state",
			""),
		schedule: redisx.NewScript("limit-schedule", "", scheduleLua,
			"limits",
			"limit"),
		reschedule: redisx.NewScript("limit-reschedule", "", rescheduleLua,
			"limits",
			"limit delay"),
		orphans: redisx.NewScript("limit-orphans", "", orphansLua,
			"| key*",
			"| witness*"),
		policies: redisx.NewScript("limit-policies", "", policiesLua,
			"policies",
			""),
		policy: redisx.NewScript("limit-policy", "", policyLua,
			"policies",
			"level policy"),
		bumpVersion: redisx.NewScript("limit-bump-version", "", bumpVersionLua,
			"policies",
			"seen#"),
	}
}

// keys returns the keys of a limit in the order of limitKeys.
func (g *Limiter) keys(gate string) []string {
	k := g.space.Limit(gate)
	return []string{k.Waiters(), k.Holders(), k.Rejected(), k.Grants(), k.State()}
}

// Member is a caller at a limit: all four parts together. A caller enters and leaves with the same parts.
type Member struct {
	Ticket         string // effect id of the activity, or of the start
	Instance       string
	Place          string // ActivityPlace, StartPlace or RetainedPlace: where to find whether the ticket is still required
	HeldByAncestor string // ticket of an ancestor that holds the same limit; empty: none
}

// RetainedPlace is the place of a slot that is retained from one attempt to the next: it is required as long as the record of its
// instance names it.
const RetainedPlace = "-"

// ActivityPlace returns the place of an activity, by the event that schedules it.
func ActivityPlace(execution, event uint64) string {
	return strconv.FormatUint(execution, 10) + "." + strconv.FormatUint(event, 10)
}

// StartPlace returns the place of an instance of that origin.
func StartPlace(born history.Position) string {
	return "o" + strconv.FormatUint(born.Seq, 10) + "." + strconv.FormatInt(born.Time, 10)
}

// Activity returns the event that schedules a member that is an activity.
func (m Member) Activity() (execution, event uint64, ok bool) {
	x, e, ok := strings.Cut(m.Place, ".")
	execution, bad := strconv.ParseUint(x, 10, 64)
	event, worse := strconv.ParseUint(e, 10, 64)
	return execution, event, ok && bad == nil && worse == nil
}

// Origin returns the origin, seq.time, of a member that is an instance.
func (m Member) Origin() (born string, ok bool) { return strings.CutPrefix(m.Place, "o") }

// StartTicket returns the ticket of an instance: like an effect id, 128 bits of SHA-256 in 22 characters of base64url.
func StartTicket(instance string, born history.Position) string {
	b := append([]byte("gate of a start\n"+instance+"\n"), make([]byte, 0, 16)...)
	b = binary.BigEndian.AppendUint64(b, born.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(born.Time)) //nolint:gosec // the bits, not the number
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// String returns the member as the limit stores it: its parts, separated by spaces.
func (m Member) String() string {
	s := m.Ticket + " " + m.Instance + " " + m.Place
	if m.HeldByAncestor != "" {
		s += " " + m.HeldByAncestor
	}
	return s
}

// ErrMember is a text that is no member.
var ErrMember = errors.New("not a member of a limit")

// ParseMember parses the text of String. The error matches ErrMember.
func ParseMember(text string) (Member, error) {
	f := strings.Split(text, " ")
	if len(f) < 3 || len(f) > 4 || f[0] == "" || f[1] == "" || f[2] == "" || len(f) == 4 && f[3] == "" {
		return Member{}, fmt.Errorf("%w: %.200q", ErrMember, text)
	}
	m := Member{Ticket: f[0], Instance: f[1], Place: f[2]}
	if len(f) == 4 {
		m.HeldByAncestor = f[3]
	}
	return m, nil
}

// members parses a list of members.
func members(texts []string) ([]Member, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	out := make([]Member, len(texts))
	for i, t := range texts {
		var err error
		if out[i], err = ParseMember(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}
