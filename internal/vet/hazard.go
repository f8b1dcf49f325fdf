package vet

import "fmt"

// kind is the category of a finding, by which an allow names it.
type kind string

const (
	kindTime    kind = "time"    // clocks, timers, the machine's time zone
	kindRandom  kind = "random"  // random numbers, keys, ids
	kindMap     kind = "map"     // the order of a map
	kindGo      kind = "go"      // goroutines
	kindChannel kind = "channel" // channel operations and select
	kindSync    kind = "sync"    // locks, pools, atomics
	kindIO      kind = "io"      // files, processes, environment, network, databases
	kindContext kind = "context" // a new context.Context
	kindRuntime kind = "runtime" // what the runtime cannot undo, or what differs between machines
	kindGlobal  kind = "global"  // a package-level variable is written
	kindEscape  kind = "escape"  // a *pawl.Context leaves its run
	kindAllow   kind = "allow"   // an invalid allow; cannot be allowed
)

// kinds lists the kinds that an allow may name, in the order of the guide.
func kinds() []kind {
	return []kind{
		kindTime, kindRandom, kindMap, kindGo, kindChannel, kindSync,
		kindIO, kindContext, kindRuntime, kindGlobal, kindEscape,
	}
}

// hazard is code that replays differently.
type hazard struct {
	kind    kind
	what    string // "time.Now", "a go statement": the subject of the message
	why     string // "returns another time at every replay": its predicate
	instead string // "use pawl.Now(ctx)"
	// confined hazards are reported in the package in which they occur, also through its functions, but not in packages that
	// import it.
	confined bool
}

// here returns the message at the hazard itself.
func (h hazard) here() string {
	return fmt.Sprintf("%s %s; %s [%s]", h.what, h.why, h.instead, h.kind)
}
