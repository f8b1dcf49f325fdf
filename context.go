package pawl

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Context gives an orchestration access to its instance. It is not a context.Context, so it cannot be passed to a call that does I/O.
// Only the orchestration's own code may use it, and only while that code runs. In another goroutine, after the end, or in another
// instance, operations return a *Misuse. NewID, Rand, Patched and Future.Cancel have no error result and panic with the *Misuse instead.
// In a goroutine that the author has started, where the panic would crash the process, they log it and end that goroutine.
type Context struct {
	x     *replay.Code
	scope *replay.Scope
}

// Misuse is the error of an operation that is not allowed where it was called: on a goroutine that the author started, after the end of
// the instance, inside another instance, or in a function that must not make decisions. Match it with errors.As.
//
// Instance (a string) is the id of the instance whose Context was used. What (a string) describes where, such as "on a goroutine that is
// not its own". Error returns both, and where a Context may be used.
type Misuse = replay.Misuse

// InstanceInfo describes the running instance.
type InstanceInfo struct {
	Instance  string          // the instance id
	Execution uint64          // number of the execution; continue-as-new increments it
	Name      string          // name of the orchestration
	Version   string          // version recorded at the start; empty without versions
	Length    uint64          // approximate length of the history (inputs applied plus work scheduled); the same on replay
	Parent    string          // instance id of the parent; empty without one
	Headers   history.Headers // headers of the start: the trace context and those that its sender added
}

// Instance returns the description of the running instance.
func Instance(ctx *Context) InstanceInfo {
	id := ctx.x.Identity()
	info := InstanceInfo{Instance: id.Instance, Execution: id.Execution, Name: ctx.x.Name(), Version: ctx.x.Version(), Length: ctx.x.Length(), Headers: ctx.x.Headers()}
	if p := ctx.x.Parent(); p != nil {
		info.Parent = p.Instance
	}
	return info
}

// Err returns a *Cancelled if the instance was cancelled or the scope of ctx has ended, and nil otherwise. Use it to distinguish the
// cancellation of the code itself from that of a call, which returns the same kind of error.
func Err(ctx *Context) error { return ctx.x.Over(ctx.scope) }

// Now returns the time of the input that the code is processing, in UTC with millisecond precision. It is the same on replay, never
// decreases, and does not change while the code does not wait.
func Now(ctx *Context) time.Time { return ctx.x.Now() }

// NewID returns a new unique id in the format of a UUID. It is the same on replay.
func NewID(ctx *Context) string { return ctx.x.NewID() }

// Rand returns a new source of random numbers that are the same on replay. They are predictable, so do not use them for secrets, and do
// not share the source between instances.
func Rand(ctx *Context) *rand.Rand { return ctx.x.Rand() }

// Logger returns the orchestrator's logger. It is silent during replay, so each line is logged once.
func Logger(ctx *Context) *slog.Logger { return ctx.Logger() }

// Logger is the function Logger as a method.
func (c *Context) Logger() *slog.Logger { return c.x.Logger() }

// After returns a future that is ready when d has passed, for use in Select. d is rounded up to milliseconds. If d is zero or less, After
// is a poll: the future is ready once all inputs that had arrived are applied, so in a Select those inputs win.
func After(ctx *Context, d time.Duration) *Future[None] {
	return &Future[None]{core: ctx.x.Timer(d, ctx.scope), form: form{none: true}}
}

// Sleep waits for d. The error is a *Cancelled if the instance was cancelled or the scope of ctx has ended.
func Sleep(ctx *Context, d time.Duration) error {
	_, err := After(ctx, d).Get(ctx)
	return err
}
