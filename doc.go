// Package pawl is the API for writing durable orchestrations in ordinary Go.
//
// An orchestration is a Go function of which every step is recorded. If its process ends, another one continues the function where it
// was. Activities do the work, on any worker that has them; an activity whose result is no longer needed is cancelled.
//
// # Declaring
//
// Handles are declared once, in a package that workers, orchestrators and clients import. They hold no function, so importing them
// links no implementation:
//
//	var (
//		Reserve  = pawl.NewActivity[Order, Hold]("reserve-stock")
//		Release  = pawl.NewActivity[Hold, pawl.None]("release-stock")
//		Charge   = pawl.NewActivity[Order, Receipt]("charge-card", pawl.Queue("payments"))
//		Approved = pawl.NewEvent[Approval]("approved")
//		Fulfil   = pawl.NewOrchestration[Order, Receipt]("fulfil-order")
//	)
//
// # Writing
//
//	func fulfil(ctx *pawl.Context, o Order) (_ Receipt, err error) {
//		hold, err := Reserve.Call(ctx, o)
//		if err != nil {
//			return Receipt{}, fmt.Errorf("reserve %s: %w", o.ID, err)
//		}
//		defer func() {
//			if err != nil { // also after a cancellation: the detached context is not cancelled
//				_, rerr := Release.Call(pawl.Detach(ctx), hold)
//				err = errors.Join(err, rerr)
//			}
//		}()
//		approval, deadline := Approved.Next(ctx), pawl.After(ctx, 24*time.Hour)
//		switch first, err := pawl.Select(ctx, approval, deadline); { // losers are cancelled
//		case err != nil:
//			return Receipt{}, err
//		case first == deadline:
//			return Receipt{}, ErrNotApproved
//		}
//		return Charge.Call(ctx, o, pawl.Retry{Attempts: 5}, pawl.AttemptTimeout(30*time.Second))
//	}
//
// # Binding
//
// Do binds a handle to its function. Orchestrators run bindings such as Fulfil.Do(fulfil), see package orchestrator; workers run
// bindings such as Reserve.Do(svc.reserve), see package worker. Package client starts instances.
//
// # Determinism
//
// Pawl restores an instance by running its code again, which must then do the same as before. So the code gets the time (Now), ids
// (NewID) and random numbers (Rand) from its Context; starts no goroutine (Go and Map run functions concurrently); does not depend on
// the order of a Go map; and leaves all I/O to activities. If the code makes a decision that does not match its history, the instance is
// suspended as non-deterministic, with an error that names the event and the line, and resumes when compatible code is deployed.
//
// Orchestration code must not call runtime.LockOSThread or debug.SetPanicOnFault, and must not block on anything but the operations of
// this package.
//
// # Concurrency
//
// Go starts a sibling, Await waits for what siblings do, Scope bounds what is started in it, Detach leaves all scopes, Future.Cancel
// cancels one future, and SideEffect records a value that is not deterministic. See docs/guide/siblings-and-scopes.md.
//
// # Other instances
//
// Call and Start of an orchestration's handle, inside an orchestration, start a child: an instance of its own, which is cancelled when
// its result is no longer needed. StartDetached starts an instance without a parent; Event.Send sends an event to an instance, and
// SendOrStart starts the instance first if there is none. A Status publishes the progress of an instance.
//
// # Limits
//
// Options of a handle limit how many calls of an activity, or instances of an orchestration, run at a time (Concurrency) or are admitted
// in a window (Rate, Quota), in the whole fleet, by key (KeyBy) or for a Group. Calls over the limit wait in FIFO order; a waiting
// orchestration has not begun. See LimitOption.
//
// # Long-running instances and versions
//
// ContinueAsNew continues an instance with an empty history. Several versions of an orchestration are bound together with Version, and
// each instance keeps the version that it was started with; Patched is for a change of a line or two.
//
// # Errors
//
// A call returns the error of its activity as a *Failure. errors.Is finds sentinels made with NewError in it, however they were
// wrapped. A cancelled call returns a *Cancelled, for which errors.Is(err, context.Canceled) holds. Calls are not retried without a
// Retry option.
//
// # Encoding
//
// Inputs, results, events and statuses are JSON, as encoding/json writes and reads it. A type or a value that would not be restored
// as it was is rejected with ErrUnencodable: the type where its handle is declared, the value at the call. docs/guide/payloads.md has the
// rules. Values are always encoded and decoded, even within one process: unexported fields are always lost.
//
// # Tests and programs
//
// Package pawltest tests orchestrations without servers, in virtual time; pawltest/integration starts real ones. Package exec runs
// external programs in activities. Package pawlfx is for programs that use fx.
package pawl
