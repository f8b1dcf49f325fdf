package pawl

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
)

// Context is what an orchestration's code asks the world through. It is no
// context.Context, so that it can not be given to a call that does its work here and
// now. Only the orchestration's own code may use it, and only while it runs: from a
// goroutine, after the end, or in another instance, the words return a *Misuse.
// NewID, Rand, Patched and Cancel have no error to return: they panic with it, and where the panic
// would take the process along, on a goroutine that the author started, they log it
// and end that goroutine.
type Context struct {
	x     *replay.Execution
	scope *replay.Scope
}

// Misuse is the error of a word that was called where none may be.
type Misuse = replay.Misuse

// InstanceInfo tells an orchestration what it is.
type InstanceInfo struct {
	Instance  string // the instance id
	Execution uint64 // the generation
	Name      string // of the orchestration
	Version   string // as recorded at the start; empty without versions
	Length    uint64 // of the history so far, about: inputs taken and work scheduled. The same on replay
	Parent    string // id of the instance whose child it is; empty if nobody's
}

// Instance tells the orchestration what it is.
func Instance(ctx *Context) InstanceInfo {
	id := ctx.x.Identity()
	info := InstanceInfo{Instance: id.Instance, Execution: id.Execution, Name: ctx.x.Name(), Version: ctx.x.Version(), Length: ctx.x.Length()}
	if p := ctx.x.Parent(); p != nil {
		info.Parent = p.Instance
	}
	return info
}

// Err says whether ctx is over: it gives the *Cancelled if the instance was asked to end, or
// the scope of ctx has ended, and nil otherwise. It tells one's own cancellation from that of a
// call, which looks the same.
func Err(ctx *Context) error { return ctx.x.Over(ctx.scope) }

// Now is the time of the input that the code is running for, in UTC with millisecond
// precision. It is the same on replay, never goes back, and stands still while the
// code does not wait.
func Now(ctx *Context) time.Time { return ctx.x.Now() }

// NewID gives a new unique id in the form of a UUID, the same on replay.
func NewID(ctx *Context) string { return ctx.x.NewID() }

// Rand gives a new source of random numbers, the same on replay. It must not be kept
// from one instance to another; that it is predictable makes it unfit for secrets.
func Rand(ctx *Context) *rand.Rand { return ctx.x.Rand() }

// Logger gives the orchestrator's logger, silent during replay: what was logged once
// is not logged again.
func Logger(ctx *Context) *slog.Logger { return ctx.Logger() }

// Logger is the same as the function of that name.
func (c *Context) Logger() *slog.Logger { return c.x.Logger() }

// After gives a future that is ready once d has passed: the timer of a Select.
// Precision is a millisecond, rounded up. Zero or less is a poll: the future is ready once every input that had
// arrived has been applied, so that in a Select whatever has arrived comes first.
func After(ctx *Context, d time.Duration) *Future[None] {
	return &Future[None]{core: ctx.x.Timer(d, ctx.scope), form: form{none: true}}
}

// Sleep waits for d. The error is a *Cancelled if the instance was asked to end, or the
// scope of ctx is over.
func Sleep(ctx *Context, d time.Duration) error {
	_, err := After(ctx, d).Get(ctx)
	return err
}
