// Package pawl has the words in which an author writes durable orchestrations.
//
// An orchestration is ordinary Go code whose every step is recorded. The process that
// runs it may die at any moment; another goes on where it was. The work itself is done
// by activities, on any worker that has them; an activity whose result nobody wants
// any more is cancelled wherever it runs.
//
// # Declaring
//
// Handles are declared once, in a package that both fleets and all clients import.
// They hold no function, so nothing is linked that is not needed:
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
//			if err != nil { // also when the order is cancelled: Detach survives that
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
// A fleet of orchestrators is made of Fulfil.Do(fulfil), a fleet of workers of
// Reserve.Do(svc.reserve) and Charge.Do(svc.charge). See package orchestrator and
// package worker; a Registry is what both keep their bindings in.
//
// # The one rule
//
// Code that has been run before is run again, to bring it back to where it was, and
// must then do the same as it did. So it asks its Context for the time (Now), for ids
// (NewID) and for random numbers (Rand); starts no goroutine (Go and Map run several things
// side by side); does not let the order of a Go map decide anything; and does all work
// that touches the world in activities. Code that breaks the rule is noticed: the
// instance stalls, with an error that names the event and the line, and goes on once
// the code has been mended.
//
// Three more things the runtime cannot survive or repair: orchestration code must not
// call runtime.LockOSThread or debug.SetPanicOnFault, and must not block on anything
// but the words of this package.
//
// # Side by side
//
// Go starts a sibling, Await waits for what siblings do, Scope says how far what is
// started in it reaches, Detach leaves all scopes, Future.Cancel cancels one thing by
// hand, and SideEffect records a value that is not the same every time. See
// docs/guide/siblings-and-scopes.md; and package pawltest for how to test it all.
//
// # Other instances
//
// Call and Start of an orchestration's handle, inside an orchestration, start a child: an
// instance of its own, whose result is waited for and which is cancelled when nobody wants
// that any more. StartDetached starts an instance and leaves it alone; Event.Send sends one
// an event, and SendOrStart starts it for that if it is not there. A Status says to whoever watches how far an instance is.
//
// # Limits
//
// Options of a handle limit how many of an activity, or of an orchestration, run at a time
// (Concurrency) or begin in a window (Rate, Quota), in the whole fleet, for each value of a key
// (KeyBy) or in a Group. What must wait, waits in order of arrival; an orchestration that waits has
// not begun. See LimitOption.
//
// # For ever, and changed on the way
//
// ContinueAsNew lets an instance go on with an empty history. Several versions of an
// orchestration are bound side by side with Version, and each instance stays with the one
// that it was started with; Patched is for a change of a line or two.
//
// # Errors
//
// An error that an activity returns arrives at the call as a *Failure. Sentinels made
// with NewError are still found in it by errors.Is, however they were wrapped. A
// cancelled call returns a *Cancelled, for which errors.Is(err, context.Canceled)
// holds. Nothing is retried unless the call asks for it with Retry.
//
// # Encoding
//
// Inputs, results, events and statuses are JSON, as encoding/json writes and reads it. A type
// or a value that would not come back as it was sent is refused with ErrUnencodable: the
// type where its handle is declared, the value at the call. docs/guide/payloads.md has the
// rules. Everything goes through its encoded form, also when it would not have to, so that
// what works once works after a restart: unexported fields are lost, always.
package pawl
