package pawltest

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// RunJob runs an activity as a job (made with client.NewJob) at the moment, as the instance named by To. JobResult returns its result.
func (m Moment) RunJob(j *client.Job) {
	m.e.tb.Helper()
	p, err := j.Payload()
	if err != nil {
		m.e.tb.Fatalf("job of %s: %v", j.Activity, err)
	}
	m.input(&message.OutInput{Kind: message.KindStart, Name: builtin.JobName, Payload: p, By: "test"})
}

// JobResult returns the result or the failure of a job that has ended, whether it was started by RunJob or by a schedule. It fails the
// test if the instance has not ended or is not a job.
func JobResult[In, Out any](of Recorded, a pawl.Activity[In, Out]) (out Out, err error) {
	r := of.recorded()
	r.e.tb.Helper()
	if name := r.in.now().started.Name; name != builtin.JobName {
		r.in.failf("instance %s is of orchestration %s, and no job", r.in.id, name)
	}
	return result(r.in, author.Result(a))
}

// CreateSchedule creates a schedule at the moment, or replaces the configuration of the schedule named by To, like Client.CreateSchedule.
// The instances that it starts are in the Env: Of(schedule + "@" + time). An invalid configuration fails the test.
func (m Moment) CreateSchedule(s client.Schedule) {
	m.e.tb.Helper()
	config, err := builtin.Convert[builtin.Schedule](s)
	if err = cmp.Or(err, config.Check()); err != nil {
		m.e.tb.Fatalf("schedule %s: %v", m.target(), err)
	}
	configure := encode(m.e, "command", builtin.Commands, author.Value(builtin.Commands), builtin.Command{Do: "configure", Schedule: &config})
	Start(m, builtin.Schedules, builtin.State{Schedule: config}, StartOption{func(in *message.OutInput) {
		in.Event = &message.OutEvent{Name: builtin.Commands.Name(), Payload: configure}
	}})
}

// PauseSchedule pauses the schedule named by To: its times pass without effect.
func (m Moment) PauseSchedule(note string) {
	Send(m, builtin.Commands, builtin.Command{Do: "pause", Note: note})
}

// ResumeSchedule ends a pause.
func (m Moment) ResumeSchedule(note string) {
	Send(m, builtin.Commands, builtin.Command{Do: "resume", Note: note})
}

// TriggerSchedule makes the schedule perform its action at the moment.
func (m Moment) TriggerSchedule() { Send(m, builtin.Commands, builtin.Command{Do: "trigger"}) }

// BackfillSchedule makes the schedule perform its action for its times after from, up to and including to.
func (m Moment) BackfillSchedule(from, to time.Time) {
	Send(m, builtin.Commands, builtin.Command{Do: "backfill", From: from.UTC(), To: to.UTC()})
}

// Schedule returns the state of a schedule: its next time, the running instances, and the times done, skipped and missed. If no schedule
// has the id, the test fails.
func (e *Env) Schedule(id string) client.ScheduleState {
	return state(e.Of(id), pawl.NewStatus[client.ScheduleState]())
}

// StartBatch starts a batch at the moment, with the id named by To, over the instances of the Env. Filters work as in a namespace. An
// invalid batch fails the test.
func (m Moment) StartBatch(b client.Batch) {
	m.e.tb.Helper()
	config, err := builtin.Convert[builtin.Batch](b)
	if err = cmp.Or(err, config.Check()); err != nil {
		m.e.tb.Fatalf("batch %s: %v", m.target(), err)
	}
	Start(m, builtin.Batches, builtin.BatchState{Batch: config})
}

// Batch returns the state of a batch. If no batch has the id, the test fails.
func (e *Env) Batch(id string) client.BatchState {
	return state(e.Of(id), pawl.NewStatus[client.BatchState]())
}

// state returns the latest custom status of an instance of a built-in orchestration.
func state[T any](r Record, s pawl.Status[T]) T {
	r.e.tb.Helper()
	all := Statuses(r, s)
	if len(all) == 0 {
		r.in.failf("instance %s has published no state", r.in.id)
	}
	return all[len(all)-1]
}

// list implements builtin.Instances.List, latest start first. A namespace lists the latest change of status first, so instances move
// while they are listed; here none move.
func (e *world) list(_ int, where filter.Where, cursor string, limit int) (rows []builtin.Listed, next string, err error) {
	last := int64(math.MaxInt64)
	if cursor != "" {
		if last, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return nil, "", err
		}
	}
	for i, in := range slices.Backward(e.instances) {
		place := int64(i) + 1
		if place >= last || e.byID[in.id] != in { // in is an earlier incarnation
			continue
		}
		rec := memstore.Backend{Store: e.part.Store}.Record(in.id)
		if rec == nil {
			continue
		}
		rec.Stalled = e.part.stalled[in.id] != ""
		if !where.Match(rec.Row(in.id)) {
			continue
		}
		if len(rows) == limit {
			return rows, strconv.FormatInt(rows[len(rows)-1].Since, 10), nil
		}
		rows = append(rows, builtin.Listed{Instance: in.id, Since: place})
	}
	return rows, "", nil
}

// Import creates an instance from an export (pawl export, or Record.Export) at the moment, with the id named by To, which must be unused.
// Its orchestration must be bound. The instance counts as ended even if it had not ended when it was exported; Retry continues it. An
// export that cannot be imported fails the test.
func (m Moment) Import(export []byte) {
	m.e.tb.Helper()
	imported, _, err := show.ReadImport(export)
	var p history.Payload
	if err == nil {
		p, err = imported.Payload()
	}
	if err != nil {
		m.e.tb.Fatalf("import of %s: %v", m.target(), err)
	}
	m.input(&message.OutInput{Kind: message.KindStart, Name: message.ImportName, Payload: p, Reuse: history.ReuseReject, By: "test"})
}
