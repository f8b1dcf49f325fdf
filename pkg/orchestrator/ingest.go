package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	idleAdvance = 30 * time.Second // how often an idle partition moves applied to the end of the stream
	firstRetry  = 50 * time.Millisecond
	lastRetry   = 2 * time.Second
	lastAttach  = 250 * time.Millisecond // between attempts to read inputs: a new leader has been elected meanwhile
	ingestBytes = 4 << 20                // payload of one script
)

// readInputs reads the partition's inputs from where the store left them, for as
// long as the tenure lasts. A batch is read when the one before it is in the store.
func (a *actor) readInputs(ctx context.Context) {
	at := a.tenure.Applied
	pause, cutOff := firstRetry, false
	for ctx.Err() == nil {
		r, err := a.conn.Attach(ctx, a.st.Part, at)
		if err != nil {
			if ctx.Err() == nil {
				logFailure(a.log, "inputs not read, retrying", err, "after", at.Seq, "pause", pause)
			}
			pause = min(wait(ctx, pause), lastAttach)
			continue
		}
		if gap := r.Gap(); gap != nil {
			a.met.gaps.Inc()
			a.log.Error("inputs removed from stream before being read", "error", gap)
		}
		pause = firstRetry
		if cutOff {
			a.announce() // what was pushed meanwhile is lost
		}
		at = a.drain(ctx, r, at)
		r.Stop()
		cutOff = true
		if err := r.Err(); err != nil && ctx.Err() == nil {
			a.log.Debug("reading inputs interrupted, attaching again", "after", at.Seq, "error", err)
			pause = wait(ctx, pause)
		}
	}
}

// wait pauses and gives the next pause.
func wait(ctx context.Context, d time.Duration) time.Duration {
	sleep(ctx, d)
	return min(2*d, lastRetry)
}

// sleep returns when d has passed or ctx is over.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// drain ingests what the reader gives until the reader or the tenure ends, and answers how far it came.
func (a *actor) drain(ctx context.Context, r *queue.Reader, at history.Position) history.Position {
	idle := time.NewTicker(idleAdvance)
	defer idle.Stop()
	for {
		var batch []queue.Input
		var next history.Position
		select {
		case <-ctx.Done():
			return at
		case <-r.Done():
			return at
		case batch = <-r.Batches():
			if len(batch) == 0 {
				continue
			}
			next = batch[len(batch)-1].Pos
		case <-idle.C:
			tail, ok, err := r.Tail(ctx)
			// A stream that was restored without its tail ends before `at`, until something new comes.
			if err != nil || !ok || tail.Time <= at.Time {
				continue
			}
			next = tail
		}
		for first := true; first || len(batch) > 0; first = false {
			n := chunk(batch)
			to := next
			if n < len(batch) {
				to = batch[n-1].Pos
			}
			if !a.ingest(ctx, batch[:n], at, to) {
				return at
			}
			at, batch = to, batch[n:]
		}
	}
}

// chunk is how many messages go into one script: it must not keep Redis, or a slow connection to
// it, busy for so long that it is given up, and then tried again for ever.
func chunk(batch []queue.Input) int {
	n, size := 0, 0
	for n < len(batch) && (n == 0 || size+batch[n].Size <= ingestBytes) {
		size += batch[n].Size
		n++
	}
	return n
}

// arrival is an input on its way into an inbox.
type arrival struct {
	in  queue.Input
	msg store.Message
	ev  unread
}

// ingest puts a batch into the inboxes. It reports false when the tenure is over.
func (a *actor) ingest(ctx context.Context, batch []queue.Input, prev, next history.Position) bool {
	arrivals := a.arrivals(ctx, batch)
	msgs := make([]store.Message, len(arrivals))
	for i := range arrivals {
		msgs[i] = arrivals[i].msg
	}
	type answer struct {
		now  int64
		said []store.Ingested
		err  error
	}
	answers := make(chan answer, 1)
	for pause := firstRetry; ; pause = wait(ctx, pause) {
		a.store.Ingest(a.st, prev, next, msgs, func(now int64, said []store.Ingested, err error) {
			answers <- answer{now, said, err} // has room: one call at a time
		})
		var got answer
		select {
		case got = <-answers:
		case <-ctx.Done(): // whatever becomes of it: the fence and the position keep it from being taken twice
			return false
		}
		switch {
		case got.err == nil:
			failpoint.Here("orchestrator.ingested")
			a.tenure.Acked(next)
			a.met.ingested.Add(float64(len(arrivals)))
			return a.box.post(func() { a.ingested(got.now, next, arrivals, got.said) })
		case errors.Is(got.err, store.ErrFenced):
			a.box.post(func() { a.fail(fmt.Errorf("%w: %w", got.err, partition.ErrLost)) })
			return false
		case errors.Is(got.err, store.ErrConflict):
			a.met.conflicts.Inc()
			a.box.post(func() { a.fail(fmt.Errorf("%w: %w", got.err, partition.ErrRolledBack)) })
			return false
		case ctx.Err() != nil:
			return false
		case redisx.Refused(got.err) && len(batch) > 0:
			return a.ingestApart(ctx, batch, prev, next, got.err)
		}
		a.met.storeErrors.Inc()
		logFailure(a.log, "inputs not ingested, retrying", got.err, "pause", pause)
	}
}

// ingestApart finds the one message that Redis refuses (a key of its instance is none of Pawl's), so that it
// does not hold up the others, and puts it aside.
func (a *actor) ingestApart(ctx context.Context, batch []queue.Input, prev, next history.Position, why error) bool {
	if half := len(batch) / 2; half > 0 {
		middle := batch[half-1].Pos
		return a.ingest(ctx, batch[:half], prev, middle) && a.ingest(ctx, batch[half:], middle, next)
	}
	in := batch[0]
	if a.unblock(ctx, in) {
		return a.ingest(ctx, batch, prev, next)
	}
	a.met.refused.Inc()
	a.log.Error("an input is refused by Redis and is skipped", "instance", in.Instance, "seq", in.Pos.Seq, "error", why)
	a.remember(ctx, []store.Refusal{{Instance: in.Instance, Seq: in.Pos.Seq, At: in.Pos.Time / int64(time.Millisecond), Reason: why.Error()}})
	return a.ingest(ctx, nil, prev, next)
}

// arrivals turns messages into elements. What can not be used is passed: counted, logged, and
// remembered where list --stuck shows it, for its sender is gone.
func (a *actor) arrivals(ctx context.Context, batch []queue.Input) []arrival {
	out := make([]arrival, 0, len(batch))
	var refused []store.Refusal
	defer func() { a.remember(ctx, refused) }()
	for _, in := range batch {
		ev, kind, err := event(in)
		if err != nil {
			a.met.refused.Inc()
			a.log.Warn("an input can not be used and is skipped", "instance", in.Instance, "seq", in.Pos.Seq, "error", err)
			refused = append(refused, store.Refusal{Instance: in.Instance, Seq: in.Pos.Seq, At: in.Pos.Time / int64(time.Millisecond), Reason: err.Error()})
			a.answer(in.Reply, queue.Answer{Instance: in.Instance, Problem: &queue.Problem{Code: queue.ProblemRefused, Message: err.Error()}})
			continue
		}
		out = a.arrive(out, in, ev, kind)
		if in.Event != nil { // a start that brings one
			with := in
			with.Kind, with.Reply = queue.KindEvent, ""
			out = a.arrive(out, with, &history.EventReceived{Name: in.Event.Name, Payload: in.Event.Payload, MsgID: in.ID, By: in.By}, store.OtherMessage)
		}
	}
	return out
}

func (a *actor) arrive(out []arrival, in queue.Input, ev history.Event, kind store.MessageKind) []arrival {
	at := in.Pos.Time / int64(time.Millisecond)
	ev.Meta().At = at
	body, err := history.Encode(ev)
	if err != nil { // every event of an input has an encoding
		a.log.Error("an input has no encoding", "seq", in.Pos.Seq, "error", err)
		return out
	}
	id := elementID(in) + a.seal
	return append(out, arrival{
		in: in, ev: unread{id: id, ev: ev},
		msg: store.Message{Instance: in.Instance, ID: seenID(in), Kind: kind, Element: history.Element{ID: id, At: at, Body: body}.Encode()},
	})
}

// remember keeps refusals. If Redis does not answer, the line and the count are all there is.
func (a *actor) remember(ctx context.Context, refused []store.Refusal) {
	if len(refused) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, lastRetry)
	defer stop()
	if err := a.store.Refuse(ctx, a.st, refused); err != nil && ctx.Err() == nil {
		logFailure(a.log, "refused inputs not listed", err, "inputs", len(refused))
	}
}

// elementID names an input by its place in the stream. The mark of a start is read by ingest.lua.
func elementID(in queue.Input) string {
	b := make([]byte, 0, 48)
	if in.Kind == queue.KindStart {
		b = append(b, '!')
	}
	b = append(b, 's')
	b = strconv.AppendUint(b, in.Pos.Seq, 10)
	b = append(b, '.')
	return string(strconv.AppendInt(b, in.Pos.Time, 10))
}

// seenID is the id by which a repeat is recognized: what the sender calls the message, within the subject that it was published
// on. The subject is what permissions are drawn by, so nobody who may not send a message can suppress it by sending another one
// under its id. Two messages of one subject have one id only if they are one message: By is not a part, for a repeat may come
// from another process.
//
// Only what anybody sends needs one. A second start of
// the same instance has no effect anyway, and to remember it would cost a key per instance; and what
// instances tell each other about a child is recognised by its effect id, and may be asked for again.
func seenID(in queue.Input) string {
	if in.ID == "" || in.Kind == queue.KindStart || in.Kind == queue.KindDone || in.Of != "" {
		return ""
	}
	name := in.Name
	if in.Event != nil { // it came with a start, and may come again by itself
		name = in.Event.Name
	}
	return in.Sender.String() + "." + in.Kind.String() + "." + name + " " + in.ID
}

func event(in queue.Input) (history.Event, store.MessageKind, error) {
	if in.Problem != nil {
		return nil, "", in.Problem
	}
	switch in.Kind {
	case queue.KindStart:
		return &history.Started{
			Name: in.Name, Version: in.Version, Payload: in.Payload, Origin: in.Pos, Execution: 1, By: in.By, Parent: in.Parent,
		}, store.StartMessage, nil
	case queue.KindEvent:
		return &history.EventReceived{Name: in.Name, Payload: in.Payload, MsgID: in.ID, By: in.By}, store.OtherMessage, nil
	case queue.KindCancel:
		kind := store.CancelMessage
		if in.Of != "" { // it names the start that it takes back, and may have overtaken it
			kind = store.OtherMessage
		}
		return &history.CancelRequested{By: in.By, Text: in.Text, Reason: in.Reason, Of: in.Of}, kind, nil
	case queue.KindPurge:
		return &history.PurgeRequested{By: in.By, Text: in.Text, Force: in.Force, Reply: in.Reply}, store.CancelMessage, nil
	case queue.KindDone:
		return childEnded(in.Done), store.CancelMessage, nil
	default:
		return nil, "", fmt.Errorf("%w: %d", queue.ErrUnknownKind, in.Kind)
	}
}

func childEnded(d *queue.Done) history.Event {
	if d.Failure != nil {
		return &history.ChildFailed{Scheduled: d.Scheduled, Effect: d.Effect, Failure: *d.Failure}
	}
	return &history.ChildCompleted{Scheduled: d.Scheduled, Effect: d.Effect, Result: d.Result}
}

// ingested tells the instances what has come for them. said is nil when the batch had been
// ingested before and the reply was lost: then their inboxes are read.
func (a *actor) ingested(now int64, to history.Position, arrivals []arrival, said []store.Ingested) {
	a.heard(now)
	defer a.advanceHorizon(to) // behind the inputs: whoever waits for them sees them
	a.batches++
	touched := make([]string, 0, len(arrivals))
	var over []store.Refusal
	for i, arr := range arrivals {
		if said != nil && (said[i].Full || said[i].Early) {
			over = append(over, a.overBound(arr, said[i].Early))
		}
		if said != nil && (said[i].Unknown || said[i].Early || said[i].Repeat && arr.in.Reply == "") {
			a.dropped(arr, said[i])
			continue
		}
		in := a.instance(arr.in.Instance)
		if arr.in.Reply != "" && arr.in.Kind != queue.KindPurge {
			a.waiters.add(in.id, arr.in.Reply, a.clock.now())
		}
		switch {
		case said == nil, said[i].Repeat:
			in.unsure()
		case said[i].Full:
			in.full = true
			in.unsure()
		default:
			a.arrived(in, arr.ev, said[i])
		}
		if arr.in.Kind == queue.KindCancel || arr.in.Kind == queue.KindPurge {
			in.searched = false
		}
		if s := a.stalls[in.id]; arr.in.Force && (s != nil || in.busy) { // a search of the inbox may be under way, and not show it
			a.forced[in.id] = true
			if s != nil {
				s.until = 0 // it need not wait for its next try
			}
		}
		if in.batch != a.batches {
			in.batch = a.batches
			touched = append(touched, in.id)
		}
	}
	for _, id := range touched { // with all that the batch has for it, so that its turn sees that
		a.advance(a.instance(id))
	}
	if len(over) > 0 {
		a.waits.Go(func() { a.remember(a.life, over) })
	}
}

// overBound reports an input that was dropped because its inbox, or what may come before a start, is at its bound in inputs or bytes.
// It had been accepted, so it is logged, counted, listed with the refused inputs, and answered if its sender waits for an answer.
func (a *actor) overBound(arr arrival, early bool) store.Refusal {
	a.met.overBound.Inc()
	why := fmt.Sprintf("inbox full: more than %d unread inputs or %d MiB; the instance fails", store.InboxBound, store.InboxBytes>>20)
	if early {
		why = fmt.Sprintf("came before the start of the instance, and such inputs may have %d MiB, those of a partition %d MiB together", store.EarlyBytes>>20, store.EarlyTotalBytes>>20)
	}
	a.log.Warn("input over bound dropped", "instance", arr.in.Instance, "kind", arr.in.Kind, "seq", arr.in.Pos.Seq, "reason", why)
	if arr.in.Kind != queue.KindStart { // who waits for the end of the instance gets that
		a.answer(arr.in.Reply, queue.Answer{Instance: arr.in.Instance, Problem: &queue.Problem{Code: queue.ProblemRefused, Message: why}})
	}
	return store.Refusal{Instance: arr.in.Instance, Seq: arr.in.Pos.Seq, At: arr.in.Pos.Time / int64(time.Millisecond), Reason: why}
}

func (a *actor) dropped(arr arrival, said store.Ingested) {
	a.met.dropped.Inc()
	if !said.Unknown {
		return // a repeat: its first copy has been answered for; or it is over its bound
	}
	a.log.Debug("an input for an instance that nobody has started is dropped", "instance", arr.in.Instance, "kind", arr.in.Kind)
	a.answer(arr.in.Reply, queue.Answer{
		Instance: arr.in.Instance,
		Problem:  &queue.Problem{Code: queue.ProblemNotFound, Message: "there is no instance " + arr.in.Instance},
	})
}

// arrived puts an input that is now in the store's inbox into memory, if memory knows the
// inbox to the place before it; otherwise the inbox is read, or shown by the commit under way.
func (a *actor) arrived(in *instance, u unread, said store.Ingested) {
	fresh := !in.loaded && !in.busy && !said.Exists && said.Unread == 1
	switch {
	case fresh: // neither record nor inbox: everything there is to know is known
		in.loaded, in.cut = true, false
		in.unread = []unread{u}
	case in.busy && said.Unread == 1:
		in.late = append(in.late, u)
	case !in.busy && in.loaded && !in.read && len(in.unread) == said.Unread-1 && (said.Exists || !u.start()) && in.lacks(u):
		in.unread = append(in.unread, u)
	default:
		in.unsure()
	}
}

// lacks reports whether memory can not have the input yet. The answer of a commit that ran after the ingest, and came before
// its answer, has shown it; then the lengths may agree by chance.
func (in *instance) lacks(u unread) bool {
	seq := u.seq()
	return seq > in.turned && !slices.ContainsFunc(in.unread, func(has unread) bool { return has.seq() >= seq })
}

// proven drops the doorbells without proof, before they cost anything: the completion of one would be turned, and free a
// place at a gate, before Redis is asked. One that was genuine all the same costs nothing but time: its instance is due two
// seconds after the push. It runs on the subscription's goroutine.
func (a *actor) proven(bells []queue.Bell) []queue.Bell {
	return slices.DeleteFunc(bells, func(b queue.Bell) bool {
		if a.st.VerifyProof(b.Instance, b.Effect, b.Element, b.Proof) {
			return false
		}
		a.met.forgedBells.Inc()
		a.log.Warn("doorbell without proof dropped", "instance", b.Instance)
		return true
	})
}

// rang is told by a worker that it has pushed a completion into an empty inbox.
func (a *actor) rang(bells []queue.Bell) {
	for _, b := range bells {
		in := a.instance(b.Instance)
		u, err := a.parseElement(b.Element)
		switch {
		case len(b.Element) == 0 || err != nil || u.ev == nil:
			in.unsure() // what is under way may have read the inbox before the push
		case in.busy:
			in.late = append(in.late, u)
		case in.loaded && len(in.unread) == 0 && a.wanted(in, u):
			in.unread = append(in.unread, u)
		case in.loaded && a.wanted(in, u):
			in.read = true
		}
		a.advance(in)
	}
}

// wanted reports whether a completion can be unread: one that was turned before its
// doorbell came is not outstanding any more.
func (a *actor) wanted(in *instance, u unread) bool {
	id, ok := u.completes()
	return ok && in.state != nil && u.fits(in.state.Activity(id))
}

// seq is the sequence of a stream input, 0 of anything else.
func (u unread) seq() uint64 {
	s, _, ok := strings.Cut(strings.TrimLeft(u.id, "!s"), ".")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
