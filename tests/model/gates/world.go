package gates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/memlimit"
)

// Setup is what a search is about.
type Setup struct {
	Rules    memlimit.Rules
	Policy   memlimit.Policy // of every gate
	Gates    int             // how many
	Programs []Program       // an instance each
	Cancels  []int           // instances that a client cancels, at any time after their start
	Faults   Faults
}

// Program is what an instance does: stages of activities, one after the other. An activity names its gate, or
// Open if it has none. The instance itself stands at the gate Start if that is not Open.
type Program struct {
	Start  int
	Stages [][]int
	Keep   bool // a failed activity is tried once more, after a pause, with the slot of the first attempt
}

// Open is the gate of an action that is not limited.
const Open = -1

// Faults are how often the world may do each.
type Faults struct {
	Crashes   int // an owner dies and another acquires; what it had sent still arrives
	Pauses    int // an owner is replaced without noticing: what it does meets the fence, but no gate has one
	Losses    int // a notice is lost, or the sweeper dies before it has asked about a holder
	Lates     int // a notice is received, and again later
	Echoes    int // a call of a gate arrives, and a copy of it later
	Slow      int // a gate has done what was asked, and the owner does not receive the answer
	Unheard   int // a commit is done, and the owner does not receive the answer
	Otherwise int // a turn that was decided before is decided otherwise: its activities have other tickets
	Rollbacks int // the store of an instance goes back
	Forgets   int // the store of a gate goes back
	Sweeps    int // visits that are not needed
	Asks      int // owners that ask again before they must
	Unlists   int // a gate that was idle is taken off its list while a member enters
	Clears    int // a client clears a gate
	Ticks     int // that time passes, a tick
	Fails     int // activities that fail
}

// World is instances, their owners, and the gates.
type World struct {
	setup     *Setup
	Now       int64 // µs
	Gates     []*memlimit.Gate
	Kept      []*memlimit.Gate // what a restart of the gate would remember
	Listed    []bool
	Idle      []bool // a visit has found it idle, and will take it off the list
	Instances []*Instance
	Saved     []*Instance
	Owners    []*Owner
	Paused    *Owner // a former one that assumes that it still is the owner
	Calls     []Call // of gates, in flight
	Commits   []Commit
	Words     []Word
	Left      Faults
	Round     int // of the fair world
	Broken    string
	Arrived   [][]string // by gate: the members that have waited since they came, as seen from outside, in order
	LetIn     []string   // tickets that a gate has ever admitted
	Forgotten []int      // by gate: grants that a rollback has forgotten, and ends of holders
	Times     [][]int64  // by gate: when a member was admitted within the limits, ms
	forgot    bool       // some store has been rolled back
	ran       bool       // the last step was a script of a gate
	nonce     int
}

// tick is the unit of the policies' times, ms. In a ms scripts of gates may follow each other; whatever else happens takes
// one, so that what is caused by a script comes later. It never adds up to a tick.
const tick = 1000

// Call is a call of Admit in flight.
type Call struct {
	Gate  int
	From  int // instance
	Era   int // of the owner that sent it
	Turn  int // that waits for the answer; 0: none does, it is an ask
	Leave []memlimit.Leave
	Enter []memlimit.Entry
	Since []int64 // of an ask: what the history recorded of each
	Echo  bool    // a copy whose answer is not received
}

// Commit is the commit of a turn in flight.
type Commit struct {
	Of, Era, Turn int
	Expect        int
	Next          *Instance
	Pop           []string
	Leave         []Slot
}

// Word is the notice of a gate to an instance, or (Asked) its question about a holder that has not been known as wanted for long.
type Word struct {
	Kind   WordKind
	Gate   int
	Member memlimit.Member
	Paused bool  // to the owner that is none any more
	At     int64 // ms, by the gate's clock
	Own    bool  // it is the answer to an owner that has asked
	Since  int64 // about an entry of which the history recorded this time
}

// WordKind is the kind of a notice.
type WordKind string

// The kinds.
const (
	Granted WordKind = "granted"
	Refused WordKind = "rejected"
	Asked   WordKind = "not known as wanted"
)

// Step is something that can happen.
type Step struct {
	Name string
	do   func(w *World)
}

// String is its name.
func (s Step) String() string { return s.Name }

// NewWorld begins with all instances published, and an owner for each.
func NewWorld(setup *Setup) *World {
	w := &World{setup: setup, Now: 1_000_000, Left: setup.Faults}
	for range setup.Gates {
		w.Gates = append(w.Gates, memlimit.NewGate(setup.Rules, setup.Policy))
	}
	w.Kept, w.Listed, w.Idle = make([]*memlimit.Gate, setup.Gates), make([]bool, setup.Gates), make([]bool, setup.Gates)
	w.Arrived, w.Forgotten, w.Times = make([][]string, setup.Gates), make([]int, setup.Gates), make([][]int64, setup.Gates)
	for i := range setup.Programs {
		w.Instances = append(w.Instances, &Instance{No: i})
		w.Owners = append(w.Owners, &Owner{Of: i})
	}
	w.Saved = make([]*Instance, len(setup.Programs))
	return w
}

// After gives the world in which the step has happened.
func (w *World) After(s Step) *World {
	c := *w
	c.Gates = slices.Clone(w.Gates)
	for i, g := range w.Gates {
		c.Gates[i] = g.Clone()
	}
	c.Kept, c.Listed, c.Idle = slices.Clone(w.Kept), slices.Clone(w.Listed), slices.Clone(w.Idle)
	c.Instances, c.Saved = slices.Clone(w.Instances), slices.Clone(w.Saved)
	c.Owners = slices.Clone(w.Owners)
	for i, o := range w.Owners {
		c.Owners[i] = o.clone()
	}
	if w.Paused != nil {
		c.Paused = w.Paused.clone()
	}
	c.Calls, c.Commits, c.Words = slices.Clone(w.Calls), slices.Clone(w.Commits), slices.Clone(w.Words)
	c.Arrived, c.LetIn, c.Forgotten = slices.Clone(w.Arrived), slices.Clone(w.LetIn), slices.Clone(w.Forgotten)
	c.Times = slices.Clone(w.Times)
	for i, a := range w.Times {
		c.Times[i] = slices.Clone(a)
	}
	for i, a := range w.Arrived {
		c.Arrived[i] = slices.Clone(a)
	}
	c.ran = false
	if s.do(&c); !c.ran {
		c.Now += 1000
	}
	return &c
}

func (w *World) fresh() int { w.nonce++; return w.nonce }

func (w *World) wrong(m memlimit.Mistake) bool { return w.setup.Rules.Wrong == m }

func (w *World) breaksf(format string, args ...any) {
	if w.Broken == "" {
		w.Broken = fmt.Sprintf(format, args...)
	}
}

// send puts a call in flight. A sender that enters has put the gate on the list of its partition before.
func (w *World) send(c Call) {
	if len(c.Leave)+len(c.Enter) == 0 {
		return
	}
	if len(c.Enter) > 0 && !w.wrong(Unlisted) {
		w.Listed[c.Gate] = true
	}
	w.Calls = append(w.Calls, c)
}

// speaker is the process that has sent the call, if it still lives.
func (w *World) speaker(of, era int) *Owner {
	if o := w.Owners[of]; o.Era == era {
		return o
	}
	if o := w.Paused; o != nil && o.Of == of && o.Era == era {
		return o
	}
	return nil
}

// admit carries out a call; `heard`: its answer arrives.
func (w *World) admit(c Call, heard bool) {
	g := w.Gates[c.Gate]
	before := g.Clone()
	w.ran = true
	a := g.Admit(w.Now, nil, c.Leave, c.Enter)
	w.heals(c)
	w.left(c.Gate, before, c.Leave)
	w.granted(c.Gate, a.Granted)
	for k, e := range c.Enter {
		if !slices.Contains(a.Granted, e.Member) {
			w.came(c.Gate, before, e, a.Verdicts[k].Kind)
		}
	}
	o := w.speaker(c.From, c.Era)
	if c.Echo || o == nil {
		return
	}
	if heard {
		w.tell(c.Gate, Granted, a.Granted, w.Now/1000)
		o.answered(w, c, a.Verdicts, w.Now/1000)
		return
	}
	o.answered(w, c, nil, 0)
}

// heals: a member that runs, and is reported as such, is a holder again, whatever has been forgotten.
func (w *World) heals(c Call) {
	for _, e := range c.Enter {
		if e.In && w.Instances[c.From].runs(e.Member) && w.Gates[c.Gate].Holder(e.Member) < 0 {
			w.breaksf("%s has reported that it runs, and has no slot", e.Member.Ticket)
		}
	}
}

// left takes note of leaves, as one sees them from outside: who waits in its instance waits.
func (w *World) left(gate int, before *memlimit.Gate, leave []memlimit.Leave) {
	for _, l := range leave {
		m := l.Member
		if w.Instances[instance(m)].state(m.Ticket) == Waiting && before.Holder(m) < 0 && before.Turned(m) < 0 || w.Gates[gate].Waiter(m) >= 0 {
			continue
		}
		w.Arrived[gate] = slices.DeleteFunc(w.Arrived[gate], func(t string) bool { return t == m.Ticket })
	}
}

// granted takes note of waiters that were admitted: no waiter that came before them may still wait.
func (w *World) granted(gate int, ms []memlimit.Member) {
	for _, m := range ms {
		at := slices.Index(w.Arrived[gate], m.Ticket)
		for _, before := range w.Arrived[gate][:max(at, 0)] {
			w.overtaken(gate, before, m.Ticket)
		}
		w.paced(gate)
		w.through(gate, m.Ticket)
	}
}

func (w *World) through(gate int, ticket string) {
	w.Arrived[gate] = slices.DeleteFunc(w.Arrived[gate], func(t string) bool { return t == ticket })
	if !slices.Contains(w.LetIn, ticket) {
		w.LetIn = append(w.LetIn, ticket)
		slices.Sort(w.LetIn)
	}
}

// paced takes note of the time of a grant: no window has more than the rate allows.
func (w *World) paced(gate int) {
	p, ms := w.setup.Policy, w.Now/1000
	w.Times[gate] = append(w.Times[gate], ms)
	n := len(w.Times[gate])
	if p.Rate > 0 && n > p.Rate && ms-w.Times[gate][n-1-p.Rate] < p.RateWindow {
		w.breaksf("%d are admitted within %d ms", p.Rate+1, p.RateWindow)
	}
}

func (w *World) overtaken(gate int, who, by string) {
	if slices.ContainsFunc(w.Gates[gate].Away, func(t memlimit.Turned) bool { return t.Member.Ticket == who }) {
		return // it waits only for the word
	}
	for _, in := range w.Instances {
		if in.state(who) == Waiting && !w.forgot {
			w.breaksf("%s overtakes %s", by, who)
		}
	}
}

// came takes note of an entry and what became of it.
func (w *World) came(gate int, before *memlimit.Gate, e memlimit.Entry, k memlimit.Kind) {
	t := e.Member.Ticket
	known := slices.Contains(w.Arrived[gate], t)
	switch {
	case e.In && k == memlimit.LetIn:
		w.Arrived[gate] = slices.DeleteFunc(w.Arrived[gate], func(s string) bool { return s == t })
	case k == memlimit.LetIn:
		if before.Holder(e.Member) < 0 {
			at := slices.Index(w.Arrived[gate], t)
			if at < 0 {
				at = len(w.Arrived[gate])
			}
			for _, first := range w.Arrived[gate][:at] {
				w.overtaken(gate, first, t)
			}
			w.paced(gate)
		}
		w.through(gate, t)
	case k == memlimit.Waits && !known:
		w.Arrived[gate] = append(w.Arrived[gate], t)
	}
}

// `tell` sends notices to every process that assumes to be the owner.
func (w *World) tell(gate int, kind WordKind, ms []memlimit.Member, at int64) {
	for _, m := range ms {
		w.say(Word{Kind: kind, Gate: gate, Member: m, At: at})
		if w.Paused != nil && w.Paused.Of == instance(m) && kind != Asked {
			w.say(Word{Kind: kind, Gate: gate, Member: m, Paused: true, At: at})
		}
	}
}

func (w *World) say(word Word) {
	if !slices.Contains(w.Words, word) {
		w.Words = append(w.Words, word)
	}
}

// sweep visits a gate.
func (w *World) sweep(gate int) {
	g, now := w.Gates[gate], w.Now/1000
	w.ran = true
	s := g.Sweep(w.Now, nil)
	w.granted(gate, s.Granted)
	w.tell(gate, Granted, s.Granted, now)
	var away []memlimit.Member
	for _, a := range s.Away {
		away = append(away, a.Member)
	}
	w.tell(gate, Refused, away, now)
	if !w.wrong(WordOnce) {
		w.tell(gate, Asked, s.Stale, now)
	}
	w.Idle[gate] = len(g.Queue)+len(g.Holders)+len(g.Away) == 0
}

// check asks after a holder.
func (w *World) check(word Word) {
	in := w.Instances[instance(word.Member)]
	wanted := false
	switch word.Member.Place {
	case "-":
		switch in.state(word.Member.Ticket) {
		case Going, Resting:
			wanted = true
		case Waiting:
			wanted = w.wrong(WaitingKept)
		case Done:
			wanted = w.wrong(NeverForgone)
		case Fresh: // no commit has it
		}
	case "b":
		wanted = in.Status == Running || in.Status == Pending && w.wrong(PendingWanted)
	default:
		wanted = slices.Contains(in.Leases, word.Member.Ticket)
	}
	if !wanted {
		w.tell(word.Gate, Granted, []memlimit.Member{word.Member}, word.At)
	}
}

func instance(m memlimit.Member) (n int) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(m.Instance, "i"), "%d", &n)
	return n
}
