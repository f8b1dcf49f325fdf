package replay

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// workKind is the kind of a work.
type workKind uint8

const (
	activityWork workKind = iota
	timerWork
	childWork
)

// work is a schedule that has not been answered: an activity, a timer or a child.
type work struct {
	id        uint64 // of the event that scheduled it
	kind      workKind
	abandoned bool                       // a child that the end of the execution does not cancel
	granted   bool                       // an activity that has waited at its limit and was admitted
	fireAt    int64                      // of a timer
	effect    string                     // of a child: only an end with this effect answers it
	sched     *history.ActivityScheduled // of an activity: the owner records in it after the turn whether it waits at a limit
	owner     owner
	member    node[*work] // in its scope, while the code requires it
	// withdrawn is set when the code has cancelled, on replay, work that the history has
	// not cancelled: see Code.cancel. The code receives no result of it.
	withdrawn *cancel.Cancelled
}

// owner is the code's side of the work.
type owner interface {
	// answered runs when the input of the work has been recorded, before any strand.
	answered(w *work, in history.Event)
	// future is what the code holds of the owner.
	future() *Future
}

func (x *outstanding) add(w *work, in *Scope) *work {
	if in != nil {
		w.member.value = w
		in.works.push(&w.member)
	}
	if x.open == nil {
		x.open = make(map[uint64]*work)
	}
	x.open[w.id] = w
	if w.kind == timerWork {
		x.timers.push(timerDue{fireAt: w.fireAt, id: w.id})
	} else {
		x.wanted++
	}
	return w
}

func (x *outstanding) remove(w *work) {
	delete(x.open, w.id)
	w.member.unlink()
	if w.kind != timerWork && w.withdrawn == nil {
		x.wanted--
	}
}

// ascending returns the open work by event id, so that decisions that depend on it are the same on every replay.
func (x *outstanding) ascending() []*work {
	all := make([]*work, 0, len(x.open))
	for _, w := range x.open {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *work) int { return cmp.Compare(a.id, b.id) })
	return all
}

// timer is a timer of the code.
type timer struct {
	Future
	work *work
}

// Timer returns a future that settles, without a value, once d has passed since Now. It is rounded up to milliseconds; zero
// or less is not a timer but a poll.
func (x *Code) Timer(d time.Duration, in *Scope) *Future {
	if err := x.Over(in); err != nil {
		return x.Refuse(err)
	}
	if d <= 0 {
		return &newPoll(x).Future
	}
	t := &timer{Future: Future{x: x}}
	t.source = t
	t.work = x.scheduleTimer(&history.TimerScheduled{}, d, x.in(in), t)
	x.exit()
	return &t.Future
}

func (t *timer) answered(*work, history.Event) { t.settle(history.Payload{}, nil) }
func (t *timer) future() *Future               { return &t.Future }

func (t *timer) withdraw(why cancel.Cancelled) bool {
	if t.settled {
		return false
	}
	t.work.cancel(t.x, why)
	return true
}

// due returns the time d after now, Unix ms.
func due(now int64, d time.Duration) int64 {
	if ms := history.Millis(d); now <= math.MaxInt64-ms {
		return now + ms
	}
	return math.MaxInt64
}

type timerDue struct {
	fireAt int64
	id     uint64
}

func (a timerDue) before(b timerDue) bool {
	return a.fireAt < b.fireAt || a.fireAt == b.fireAt && a.id < b.id
}

// timerHeap has the timer that is due first at its top. Removed timers stay in it until they are at the top; NextTimer
// drops them.
type timerHeap []timerDue

func (h *timerHeap) push(t timerDue) {
	q := append(*h, t)
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	*h = q
}

func (h *timerHeap) pop() {
	q := *h
	n := len(q) - 1
	q[0] = q[n]
	q = q[:n]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	*h = q
}
