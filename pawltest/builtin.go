package pawltest

import (
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
	"github.com/pawlrun/pawl/pkg/history"
)

// RunJob runs an activity as a job at the moment: a job of client.NewJob, as the instance that To names. JobResult has its result.
func (m Moment) RunJob(j *builtin.Job) {
	m.e.tb.Helper()
	p, err := j.Payload()
	if err != nil {
		m.e.tb.Fatalf("job of %s: %v", j.Activity, err)
	}
	m.input(&message.OutInput{Kind: message.KindStart, Name: builtin.JobName, Payload: p, By: "test"})
}

// JobResult gives the result, or the failure, of a job that has ended, of RunJob or of a schedule. If it has not ended, or is no job, the
// test fails.
func JobResult[In, Out any](of Recorded, a pawl.Activity[In, Out]) (out Out, err error) {
	r := of.recorded()
	r.e.tb.Helper()
	if name := r.in.now().started.Name; name != builtin.JobName {
		r.in.failf("instance %s is of orchestration %s, and no job", r.in.id, name)
	}
	return result(r.in, author.Result(a))
}

// CreateSchedule creates a schedule at the moment, or replaces the configuration of the one that To names, as Client.CreateSchedule does.
// Its instances are in the Env: Of(schedule + "@" + time). A configuration that is not valid fails the test.
func (m Moment) CreateSchedule(s builtin.Schedule) {
	m.e.tb.Helper()
	if err := s.Check(); err != nil {
		m.e.tb.Fatalf("schedule %s: %v", m.target(), err)
	}
	configure := encode(m.e, "command", builtin.Commands, author.Value(builtin.Commands), builtin.Command{Do: "configure", Schedule: &s})
	Start(m, builtin.Schedules, builtin.State{Schedule: s}, func(in *message.OutInput) {
		in.Event = &message.OutEvent{Name: builtin.Commands.Name(), Payload: configure}
	})
}

// PauseSchedule pauses the schedule that To names: its times pass without effect.
func (m Moment) PauseSchedule(note string) {
	Send(m, builtin.Commands, builtin.Command{Do: "pause", Note: note})
}

// ResumeSchedule ends a pause.
func (m Moment) ResumeSchedule(note string) {
	Send(m, builtin.Commands, builtin.Command{Do: "resume", Note: note})
}

// TriggerSchedule has the schedule do its action at the moment.
func (m Moment) TriggerSchedule() { Send(m, builtin.Commands, builtin.Command{Do: "trigger"}) }

// BackfillSchedule has the schedule do its action for its times after from, up to and including to.
func (m Moment) BackfillSchedule(from, to time.Time) {
	Send(m, builtin.Commands, builtin.Command{Do: "backfill", From: from.UTC(), To: to.UTC()})
}

// Schedule is the state of a schedule: its next time, what runs, and what was done, skipped and missed. If there is none of the id, the
// test fails.
func (e *Env) Schedule(id string) builtin.State { return state(e.Of(id), builtin.ScheduleStatus) }

// StartBatch starts a batch at the moment, with the id that To names, over the instances of the Env. A filter compares what it compares of
// those of a namespace. A batch that is not valid fails the test.
func (m Moment) StartBatch(b builtin.Batch) {
	m.e.tb.Helper()
	if err := b.Check(); err != nil {
		m.e.tb.Fatalf("batch %s: %v", m.target(), err)
	}
	Start(m, builtin.Batches, builtin.BatchState{Batch: b})
}

// Batch is the state of a batch. If there is none of the id, the test fails.
func (e *Env) Batch(id string) builtin.BatchState { return state(e.Of(id), builtin.BatchStatus) }

// state is the latest custom status of an instance of Pawl's own.
func state[T any](r Record, s pawl.Status[T]) T {
	r.e.tb.Helper()
	all := Statuses(r, s)
	if len(all) == 0 {
		r.in.failf("instance %s has published no state", r.in.id)
	}
	return all[len(all)-1]
}

// list is builtin.Instances.List: the latest start first. In a namespace that is the latest change of status, which moves instances while
// they are read; here none moves.
func (e *world) list(_ int, where filter.Where, cursor string, limit int) (rows []builtin.Listed, next string, err error) {
	last := int64(math.MaxInt64)
	if cursor != "" {
		if last, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return nil, "", err
		}
	}
	for i, in := range slices.Backward(e.instances) {
		place := int64(i) + 1
		if place >= last || e.byID[in.id] != in { // of an earlier incarnation
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

// Import makes an instance of an export (pawl export, or Record.Export) at the moment, with the id that To names, which must be free. Of its
// orchestration a binding is required. The instance has ended, and so has one that had not ended at the export: Retry continues it. An export
// that cannot be imported fails the test.
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
