package vet

import "fmt"

// kind is the category of a finding. An allow names it.
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
	kindRuntime kind = "runtime" // effects that the runtime cannot undo, or that differ between machines
	kindGlobal  kind = "global"  // writes to package-level variables
	kindEscape  kind = "escape"  // uses of a *pawl.Context outside its run
	kindAllow   kind = "allow"   // an invalid allow; cannot be allowed
)

// kinds lists the kinds that an allow may name, in the order of the guide.
func kinds() []kind {
	return []kind{
		kindTime, kindRandom, kindMap, kindGo, kindChannel, kindSync,
		kindIO, kindContext, kindRuntime, kindGlobal, kindEscape,
	}
}

// hazard is code that behaves differently on replay.
type hazard struct {
	kind    kind
	what    string // the subject of the message, such as "time.Now" or "a go statement"
	reason  string // the predicate, such as "returns another time at every replay"
	instead string // the advice, such as "use pawl.Now(ctx)"
	// confined hazards are reported in the package in which they occur, also when reached through its functions, but not in packages that
	// import it.
	confined bool
}

// here returns the message for a finding at the hazard itself.
func (h hazard) here() string {
	return fmt.Sprintf("%s %s; %s [%s]", h.what, h.reason, h.instead, h.kind)
}
