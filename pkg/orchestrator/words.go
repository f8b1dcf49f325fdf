package orchestrator

import (
	"cmp"
	"slices"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// word is what a gate has said about a ticket: LetIn, or why not.
type word struct {
	gate   string
	member limiter.Member
	kind   limiter.Kind
	at     int64 // by the gate's clock, Unix ms
	asked  bool  // it is the answer to this owner, who has asked about the ticket
	heard  bool  // it came as a message, which anybody may send: the gate is asked before anything is done
	since  int64 // that waits since then
}

// about reports whether the word is about the entry of the ticket that the history tells of. One from before that is about
// another: of a turn that was lost, whose ticket has left and has entered again since.
func (w word) about(k history.Ticket) bool {
	since := k.Limit.WaitingSince
	if w.asked { // whatever has become of the gate's clock
		return w.since == since
	}
	return w.at > since && since != 0
}

// worded takes the words of other processes: of gates, for instances of this partition, and for the gates of it.
func (a *actor) worded(ws []queue.Word) {
	for _, w := range ws {
		if w.Kind == queue.WordLook {
			if a.visits[w.Gate] != nil || len(a.visits) < maxHeard { // otherwise its place on the list of gates brings it
				a.lookGate(w.Gate)
			}
			continue
		}
		m, err := limiter.ParseMember(w.Member)
		if err != nil {
			a.log.Debug("a word of a gate names nobody", "gate", w.Gate, "error", err)
			continue
		}
		if a.instances[m.Instance] == nil && len(a.todo) >= maxHeard {
			continue // the gate's sweep sends it again
		}
		a.tellInstance(word{gate: w.Gate, member: m, kind: saidBy(w.Kind), at: w.At, heard: true})
	}
}

func saidBy(k queue.WordKind) limiter.Kind {
	switch k {
	case queue.WordTimedOut:
		return limiter.TimedOut
	case queue.WordCleared:
		return limiter.Cleared
	default:
		return limiter.Admitted
	}
}

// said is the word in the form in which it goes to another process.
func (w word) said() queue.Word {
	out := queue.Word{Gate: w.gate, Member: w.member.String(), At: w.at}
	switch w.kind {
	case limiter.TimedOut:
		out.Kind = queue.WordTimedOut
	case limiter.Cleared:
		out.Kind = queue.WordCleared
	default:
		out.Kind = queue.WordGranted
	}
	return out
}

func (a *actor) tellInstance(w word) {
	in := a.instance(w.member.Instance)
	a.keepWord(in, w)
	if in.phase == absent && a.busy >= wordsAtOnce {
		a.todo = append(a.todo, in.id)
		return
	}
	a.advance(in)
}

// maxHeard bounds what is kept because of messages that anybody may send: instances that wait to be loaded, gates. Beyond it a
// message is dropped, and what it was about is found by the sweep.
const maxHeard = 10_000

// wordsAtOnce bounds how many instances are brought into memory at a time because a gate has told them something.
const wordsAtOnce = 128

func (a *actor) keepWord(in *instance, w word) {
	if in.words == nil {
		in.words = make(map[string]word)
	}
	in.words[w.member.Ticket] = w
}

// keepWords takes words up again, except where a newer one has come meanwhile.
func (a *actor) keepWords(in *instance, words map[string]word) {
	for id, w := range words {
		if _, newer := in.words[id]; !newer {
			a.keepWord(in, w)
		}
	}
}

// hear makes inputs of the words about tickets that are wanted. The others are kept: what is unread may want them still,
// as the turn did that was decided before a crash, and entered the gate.
func (a *actor) hear(in *instance) {
	if len(in.words) == 0 || in.state == nil || in.status().Ended() {
		return
	}
	type heard struct {
		ticket history.Ticket
		word   word
	}
	var all []heard
	for id, w := range in.words {
		k, ok := in.meant(w)
		if !ok {
			continue
		}
		delete(in.words, id)
		if k.Waiting {
			all = append(all, heard{k, w})
		}
	}
	slices.SortFunc(all, func(x, y heard) int { return cmp.Compare(x.ticket.Event, y.ticket.Event) }) // as they came to the gate
	var calls gateCalls
	for _, h := range all {
		a.heed(in, h.ticket, h.word, &calls)
	}
	for _, c := range calls.all {
		a.askCall(in, c)
	}
}

// meant finds the ticket that a word is about. A lost turn may have entered another gate, for its key path was another, or as another
// member: it was not to keep its slot.
func (in *instance) meant(w word) (history.Ticket, bool) {
	k, ok := in.state.Find(w.member.Ticket)
	return k, ok && w.gate == k.Limit.Name && w.member == member(in.id, k.Event, in.state.Started, k.Limit)
}

// heed acts on a word about a ticket that waits. What only the gate can tell is added to calls.
func (a *actor) heed(in *instance, k history.Ticket, w word, calls *gateCalls) {
	switch {
	case w.asked && !w.about(k): // the ticket has entered anew since, and that was answered
	case w.heard, !w.about(k):
		calls.at(k.Limit.Name).ask(in, k)
	case w.kind == limiter.Admitted:
		ev := &history.Granted{Scheduled: k.Event}
		ev.At = a.clock.now()
		in.poison = append(in.poison, ev)
	case k.Event == 1:
		in.away, in.awayAt = limiter.Verdict{Kind: w.kind}, 0
		if w.kind == limiter.TimedOut {
			in.awayAt = a.clock.now()
		}
	case w.kind == limiter.TimedOut:
		in.overdue = append(in.overdue, a.turnedAway(k.Event, w.gate, w.kind, 0))
	default:
		in.poison = append(in.poison, a.turnedAway(k.Event, w.gate, w.kind, 0))
	}
}

// disown takes out of their gates the tickets that nothing in the instance wants. Memory may be that of an owner who was paused
// and has been replaced, so the store is asked first: nothing is unread, and the history is as it is known.
func (a *actor) disown(in *instance) {
	words := in.words
	in.words = nil
	a.to(in, releasing)
	l := &store.Reconciliation{Instance: in.id, Execution: in.execution(), Head: in.head(), Wakeup: a.nextLook(in), Published: in.sent}
	a.looking(in, &reconciliation{look: l, notices: words})
}

func (a *actor) disownNow(words map[string]word) {
	of := make(map[string][]limiter.Orphan)
	for _, w := range words {
		of[w.gate] = append(of[w.gate], limiter.Orphan{Member: w.member, At: w.at})
		a.met.orphans.Inc()
	}
	for name, ds := range of {
		a.emit(effect{kind: releaseTickets, id: name, body: ds})
	}
}

// giveBack takes out of their gates what a stalled instance does not use there: it may be stalled for days, and others wait. What
// memory has may be half a turn, and has the head of the inbox only, so all of it is read again.
func (a *actor) giveBack(in *instance, s *stall) {
	if s.Kind == stallUnreadable || len(in.owed) > 0 { // what is owed is sent again by each who loads it
		a.hold(in, s, nil)
		return
	}
	words := in.words
	a.unwind(in)
	a.load(in, operation{goal: toRelease, stall: s, words: words})
}

func (a *actor) releaseIdle(in *instance, op operation, inbox []unread) {
	if op.stall.until <= a.clock.now() { // a forced purge has come meanwhile, or it is time to try again
		a.unwind(in)
		a.advance(in)
		return
	}
	a.keepWords(in, op.words) // to those that came behind the first: they come together
	a.sendOwed(in)
	a.hold(in, op.stall, in.idle(inbox))
}

// idle gives the words about tickets that the instance does not use, whatever its next turn decides: its history does not name them, and a
// turn that is decided again enters anew; or the activity has been ended by its worker, and its end is unread.
func (in *instance) idle(inbox []unread) map[string]word {
	out := make(map[string]word)
	for id, w := range in.words {
		k, ok := in.meant(w)
		if ok && (k.Waiting || k.Limit.Retain || !slices.ContainsFunc(inbox, in.ends(k.Event))) {
			continue
		}
		out[id] = w
	}
	return out
}

// ends tells which input is the end of an activity.
func (in *instance) ends(activity uint64) func(unread) bool {
	return func(u unread) bool {
		id, ok := u.completes()
		return ok && id == activity && u.fits(in.state.Activity(id))
	}
}

// spread tells instances what a gate has for them.
func (a *actor) spread(name string, ms []limiter.Member, kind limiter.Kind, at int64) {
	if len(ms) == 0 {
		return
	}
	to := make(map[int][]word)
	for _, m := range ms {
		p := a.partitionOf(m.Instance)
		to[p] = append(to[p], word{gate: name, member: m, kind: kind, at: at})
	}
	a.emit(effect{kind: passNotices, body: to})
}

// settled reports an input of the owner's own that came from a gate, and whose ticket has been answered otherwise since.
func (t *turn) settled(ev history.Event) bool {
	switch e := ev.(type) {
	case *history.Granted:
		return !t.fold.Waiting(e.Scheduled)
	case *history.ActivityFailed:
		return history.IsLimitCode(e.Failure.Code) && !t.fold.Waiting(e.Scheduled)
	default:
		return false
	}
}
