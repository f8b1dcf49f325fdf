package limiter

import (
	_ "embed"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
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

// Limiter runs the limit scripts of a namespace. Its methods are safe for concurrent use. Those with a callback send a request and return
// at once; the callback is called exactly once, on a goroutine that it must not block.
type Limiter struct {
	run       *redisx.Runner
	space     redisx.Space
	partition func(name string) int
	script    scripts

	mu         sync.Mutex
	pipelines  map[string]*pipeline // by limit; each has an outstanding script of this process
	scheduled  map[string]time.Time // time at which this process set the wakeup of a limit, kept for scheduledFor
	pruned     time.Time            // time at which scheduled was last pruned
	registered map[string]struct{}  // actions with keys whose own limits this process has registered
}

// New returns the limiter of a key space. The caller closes the runner, which ends outstanding calls. partition returns the partition of
// the name of a limit or of an instance.
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
			limitKeys,
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
func (g *Limiter) keys(name string) []string {
	k := g.space.Limit(name)
	return []string{k.Waiters(), k.Holders(), k.Rejected(), k.Grants(), k.State()}
}

// members parses a list of members.
func members(texts []string) ([]limit.Member, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	out := make([]limit.Member, len(texts))
	for i, t := range texts {
		var err error
		if out[i], err = limit.ParseMember(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}
