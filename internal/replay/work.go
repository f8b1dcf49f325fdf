package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/timers"
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

// work is an activity, a timer or a child that was scheduled and not answered.
type work struct {
	id        uint64 // id of the event that scheduled it
	kind      workKind
	abandoned bool                       // the end of the execution does not cancel this child
	granted   bool                       // the activity waited at its limit and was admitted
	fireAt    int64                      // when the timer is due, Unix ms
	effect    string                     // effect id of a child's start, which its end must carry
	sched     *history.ActivityScheduled // schedule of an activity, in which the owner records after the turn whether it waits at a limit
	owner     owner
	member    node[*work] // node in the scope, while the code requires the work
	// withdrawn is set on replay when the code has cancelled work whose cancellation is not in the history: see work.cancel. The code
	// receives no result of it.
	withdrawn *cancel.Cancelled
}

// owner is the code's side of the work.
type owner interface {
	// answered is called when the input that answers the work has been recorded, before any strand runs.
	answered(w *work, in history.Event)
	// future returns the future through which the code waits for the work.
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
	return slices.SortedFunc(maps.Values(x.open), func(a, b *work) int { return cmp.Compare(a.id, b.id) })
}

// timer is a timer that the code waits for.
type timer struct {
	Future
	work *work
}

// Timer returns a future that settles, without a value, when d has passed since Now. d is rounded up to milliseconds. If d is zero or
// less, the future is not a timer but a poll.
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

func (t *timer) withdraw(cause cancel.Cancelled) bool {
	if t.settled {
		return false
	}
	t.work.cancel(t.x, cause)
	return true
}

// due returns the time d after now, in Unix ms.
func due(now int64, d time.Duration) int64 {
	if ms := timers.Millis(d); now <= math.MaxInt64-ms {
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

// timerHeap has the timer that is due first at its top. Removed timers stay in the heap until they reach the top, where NextTimer drops
// them.
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
