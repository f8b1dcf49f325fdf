// Package pawl is the API for writing durable orchestrations in ordinary Go.
//
// An orchestration is a Go function whose every step is recorded in a history. If its process dies, another process replays the history
// and continues the function where it stopped. Activities do the actual work, on any worker that has registered them. An activity whose
// result is no longer needed is cancelled.
//
// # Declaring
//
// Handles are declared once, in a package that workers, orchestrators and clients import. A handle holds no function, so importing it
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
// Do binds a handle to its function. An orchestrator runs orchestration bindings such as Fulfil.Do(fulfil), see package orchestrator; a
// worker runs activity bindings such as Reserve.Do(svc.reserve), see package worker. Package client starts instances.
//
// # Determinism
//
// Pawl restores an instance by running its code again. The second run must make the same decisions as the first. Orchestration code
// therefore takes the time (Now), ids (NewID) and random numbers (Rand) from its Context; starts no goroutine (Go and Map run functions
// concurrently); does not depend on the iteration order of a Go map; and leaves all I/O to activities. If the code makes a decision that
// does not match its history, the instance is suspended as non-deterministic, with an error that names the event and the line. It resumes
// when compatible code is deployed.
//
// Orchestration code must not call runtime.LockOSThread or debug.SetPanicOnFault, and must not block on anything but the operations of
// this package.
//
// # Concurrency
//
// Go starts a sibling: a function that runs concurrently with the code that started it. Await waits for a condition that siblings make
// true. Scope cancels what was started in it when it ends, and Detach returns a context outside all scopes. Future.Cancel cancels one
// future. SideEffect records a value that is not deterministic. See docs/guide/siblings-and-scopes.md.
//
// # Other instances
//
// Inside an orchestration, Call and Start of an orchestration handle start a child: a separate instance that is cancelled when its result
// is no longer needed. StartDetached starts an instance without a parent. Event.Send sends an event to an instance, and SendOrStart
// starts the instance first if it does not exist. A Status publishes the progress of an instance.
//
// # Limits
//
// Options of a handle limit how many calls of an activity, or instances of an orchestration, run at a time (Concurrency) or are admitted
// in a time window (Rate, Quota). A limit applies to the whole fleet, optionally per key (KeyBy), and may be declared for a Group. Calls
// over the limit wait in FIFO order; an orchestration that waits has not run any code. See LimitOption.
//
// # Long-running instances and versions
//
// ContinueAsNew continues an instance with an empty history. Several versions of an orchestration can be bound side by side with Version,
// and each instance keeps the version that it was started with. Patched is for changes of a line or two.
//
// # Errors
//
// A call returns the error of its activity as a *Failure, in which errors.Is finds sentinels made with NewError, however deeply they were
// wrapped. A cancelled call returns a *Cancelled, for which errors.Is(err, context.Canceled) holds. Calls are not retried without a Retry
// option.
//
// # Encoding
//
// Inputs, results, events and statuses are encoded as JSON, as by encoding/json. A type or a value that would not survive the round trip
// is rejected with ErrUnencodable: the type where its handle is declared, the value at the call. The rules are in docs/guide/payloads.md.
// Values are always encoded and decoded, even within one process, so unexported fields are always lost.
//
// # Tests and programs
//
// Package pawltest tests orchestrations without servers, in virtual time; pawltest/integration starts real servers. Package exec runs
// external programs in activities. Package pawlfx is for programs that use fx.
package pawl
