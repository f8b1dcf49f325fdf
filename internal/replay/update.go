package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// An update is a request that the code answers once. It waits in a mailbox, like an event, and stays open until it is answered:
//
//	(validator) ──rejected──▶ answered by the owner, and not recorded
//	    │
//	UpdateReceived ──▶ waiting ──a wait, Value──▶ received ──AnswerUpdate──▶ UpdateAnswered
//	                     │  ▲                         │
//	                     │  └──the wait is withdrawn──┤
//	                     ├──deadline──▶ UpdateAnswered (CodeExpired)
//	                     └──the execution ends◀───────┘  open: carried to the next execution, or answered by the owner
//
// The deadline is a timer that is set while the update is in its mailbox and no wait has taken it. Whether an update is received or
// expires is therefore determined by the times of inputs and timers, and a replay has the same result. An update that a wait takes at
// once has no timer.
//
// Carried lists the open updates for the next execution: first those that the code has received, then everything that it has not read, in
// the order of arrival.

// ErrAnswered is the error of a second answer to an update.
var ErrAnswered = errors.New("replay: the update is answered already")

// updateBox is the prefix of the names of the mailboxes of updates. It contains a space, which no event name may.
const updateBox = "update "

// update is an open update.
type update struct {
	Future

	ev       *history.UpdateReceived
	received bool  // the code has received it
	expiry   *work // the timer of the deadline, if set
}

func (u *update) future() *Future { return &u.Future }

// answered is called when the deadline has passed.
func (u *update) answered(*work, history.Event) {
	u.expiry = nil
	u.expire()
}

// receiveUpdate passes an update to the code, or keeps it in its mailbox.
func (x *Execution) receiveUpdate(in *history.UpdateReceived) {
	if x.updates == nil {
		x.updates = make(map[string]*update)
	}
	x.updates[effectid.Update(in)] = &update{Future: Future{x: &x.Code}, ev: in}
	x.mailbox(updateBox + in.Name).post(in)
	if !x.pending {
		x.returned(in)
	}
}

// watchUpdates sets the deadlines of the updates that arrived while the execution waited for its start.
func (x *Execution) watchUpdates() {
	for _, u := range x.openUpdates() {
		x.returned(u.ev)
	}
}

// openUpdates returns the open updates in the order of their arrival.
func (x *mailboxes) openUpdates() []*update {
	return slices.SortedFunc(maps.Values(x.updates), func(a, b *update) int { return cmp.Compare(a.ev.ID, b.ev.ID) })
}

// returned sets the deadline of an update that is in its mailbox.
func (x *Code) returned(ev history.Event) {
	in, ok := ev.(*history.UpdateReceived)
	if !ok || in.Deadline == 0 || x.unwinding {
		return
	}
	u, box := x.updates[effectid.Update(in)], x.boxes.find(updateBox+in.Name)
	if u == nil || u.expiry != nil || box == nil || !slices.Contains(box.events, ev) {
		return
	}
	if left := in.Deadline - x.now; left > 0 {
		u.expiry = x.scheduleTimer(&history.TimerScheduled{}, time.Duration(min(left, maxTimer))*time.Millisecond, nil, u)
		return
	}
	u.expire()
}

// maxTimer is the longest deadline, in milliseconds.
const maxTimer = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// handed cancels the deadline of an update that a wait has taken.
func (x *Code) handed(ev history.Event) {
	in, ok := ev.(*history.UpdateReceived)
	if !ok {
		return
	}
	if u := x.updates[effectid.Update(in)]; u != nil && u.expiry != nil {
		u.expiry.cancel(x, cancel.Cancelled{})
		u.expiry = nil
	}
}

// taken records that the code has received an update.
func (x *Code) taken(ev history.Event) {
	if in, ok := ev.(*history.UpdateReceived); ok {
		if u := x.updates[effectid.Update(in)]; u != nil {
			u.received = true
		}
	}
}

// expire answers an update whose deadline has passed while it was in its mailbox.
func (u *update) expire() {
	box := u.x.mailbox(updateBox + u.ev.Name)
	at := slices.Index(box.events, history.Event(u.ev))
	if at < 0 {
		return
	}
	box.events = slices.Delete(box.events, at, at+1)
	_ = u.decideAnswer(history.Payload{}, Expired(u.ev), nil) // if the turn has no room, the update is answered at the end of the execution
}

// Expired returns the failure of an update whose deadline passed before the code received it.
func Expired(u *history.UpdateReceived) *history.Failure {
	return &history.Failure{
		Code: history.CodeExpired, Also: []string{history.CodeTimeout}, Permanent: true,
		Message: fmt.Sprintf("update %s %s was not received before its deadline, and was not executed", u.Name, u.UpdateID),
	}
}

// EndedUpdate returns the failure of an update that was open when its instance ended.
func EndedUpdate(name, id string) *history.Failure {
	return &history.Failure{
		Code: history.CodeEnded, Permanent: true, Message: fmt.Sprintf("the instance ended before it answered update %s %s", name, id),
	}
}

func (u *update) decideAnswer(result history.Payload, failure, limited *history.Failure) *history.Failure {
	_, refused, ok := decide(&u.x.record, &history.UpdateAnswered{Update: u.ev.ID, Result: result, Failure: failure}, limited)
	if ok {
		delete(u.x.updates, effectid.Update(u.ev))
	}
	return refused
}

// NextUpdate returns a future for the next update of the name that no other wait takes. See Future.Update.
func (x *Code) NextUpdate(name string, in *Scope) *Future { return x.Next(updateBox+name, in) }

// Update returns the update that a future of NextUpdate has settled with, with its payload opened, or nil.
func (f *Future) Update() *history.UpdateReceived {
	if p, ok := f.source.(*place); ok && f.settled {
		if u, ok := p.event.(*history.UpdateReceived); ok {
			opened := *u
			opened.Payload = f.value
			return &opened
		}
	}
	return nil
}

// AnswerUpdate answers an update that the code has received, with a result or with the failure of a rejection. It may be called in any
// scope, also after the cancellation of the instance. The error is ErrAnswered, or a *history.Failure for a payload over the limit; in
// that case the update stays open.
func (x *Code) AnswerUpdate(of *history.UpdateReceived, result history.Payload, failure *history.Failure) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	u := x.updates[effectid.Update(of)]
	if u == nil || u.ev.ID != of.ID {
		return ErrAnswered
	}
	limited := x.tooLarge(result, "the answer to update "+of.Name)
	if failure != nil {
		limited = cmp.Or(limited, tooLargeInline(&x.record, failure.Data, "the data of the rejection of update "+of.Name))
		cut := *failure
		cut.Message = text.Shorten(cut.Message, maxMessage)
		failure = &cut
	}
	refused := u.decideAnswer(result, failure, limited)
	x.exit()
	return refusal(refused)
}

// ReceivedUpdates returns how many updates the code has received and not answered.
func (x *Code) ReceivedUpdates() (n int) {
	for _, u := range x.updates {
		if u.received {
			n++
		}
	}
	return n
}

// carry returns the inputs that the next execution begins with; see Carried.
func (x *Execution) carry() []history.Event {
	var all []history.Event
	for _, u := range x.openUpdates() {
		if u.received {
			all = append(all, u.ev)
		}
	}
	return append(all, x.unreadInputs()...)
}

// Carried returns the inputs with which the next execution begins after this one has continued as new: first the updates that the code
// has received but not answered, then the events and updates that it has not read. They must not be modified.
func (x *Execution) Carried() []history.Event { return x.left.value().carried }

// Validator rejects an update before it is recorded, with a failure; nil accepts it.
type Validator func(history.Payload) *history.Failure

// Query answers a query from the state of the code.
type Query func(history.Payload) (history.Payload, *history.Failure)

// SetValidator sets the validator for updates of the name.
func (x *Code) SetValidator(name string, v Validator) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if x.validators == nil {
		x.validators = make(map[string]Validator)
	}
	x.validators[name] = v
	return nil
}

// Validate returns the failure with which the code rejects an update that is not recorded yet, or nil if the code accepts it or has no
// validator for it. Updates are validated once and not on replay, so the decisions of the code must not depend on a validator.
func (x *Execution) Validate(u *history.UpdateReceived) *history.Failure {
	v := x.validators[u.Name]
	if v == nil || x.left != nil || x.err != nil {
		return nil //nolint:nilerr // a broken execution returns its error from Apply
	}
	input := x.unseal(u.Payload)
	if x.unwinding { // the input cannot be opened, so it cannot be applied either; no step will follow that unwinds the code
		x.unwindAndLog()
		return nil
	}
	var rejected *history.Failure
	if broken := x.consult("in a validator, which must not wait or decide", func() { rejected = v(input) }); broken != nil {
		rejected = broken
	}
	return x.opts.Codec.SealFailure(nil, rejected)
}

// SetQuery sets the handler for queries of the name.
func (x *Code) SetQuery(name string, q Query) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if x.queries == nil {
		x.queries = make(map[string]Query)
	}
	x.queries[name] = q
	return nil
}

// Query runs the handler of the query. found is false if the code has not set one. The execution may have ended.
func (x *Execution) Query(name string, p history.Payload) (answer history.Payload, failure *history.Failure, found bool) {
	q := x.queries[name]
	if q == nil {
		return history.Payload{}, nil, false
	}
	p, err := x.opts.Codec.Open(p)
	if err != nil {
		return history.Payload{}, &history.Failure{Code: history.CodeUndecodable, Message: err.Error()}, true
	}
	if broken := x.consult("in a query, which must not wait or decide", func() { answer, failure = q(p) }); broken != nil {
		answer, failure = history.Payload{}, broken
	}
	if failure == nil {
		failure = tooLargeInline(&x.record, answer, "the answer to query "+name)
	}
	return x.opts.Codec.Seal(nil, answer), x.opts.Codec.SealFailure(nil, failure), true
}

// Queries returns the names of the queries that the code handles, sorted.
func (x *Execution) Queries() []string { return slices.Sorted(maps.Keys(x.queries)) }

// consult runs fn between two steps, on a separate strand that must not call any method. It returns the failure of a function that panics
// or calls runtime.Goexit.
func (x *Execution) consult(what string, fn func()) *history.Failure {
	s := &strand{x: &x.Code, fn: fn, barred: what}
	x.resume(s)
	switch {
	case s.returned && s.panicked == nil:
		return nil
	case !s.returned:
		s.dispose()
		return &history.Failure{Code: history.CodePanic, Message: "the code called runtime.Goexit"}
	default:
		return s.panicked
	}
}
