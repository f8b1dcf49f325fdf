package client

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// StartOption is an option of Start and SendOrStart: an IDReuse, every InstanceOption, and every Option.
type StartOption interface {
	setter
	starts()
}

// InstanceOption is an option for a new instance, accepted by Start, SendOrStart and UpdateWithStart: Version, With, Attributes, After,
// StartAt, RunTimeout.
type InstanceOption interface {
	StartOption
	updates()
}

// PurgeOption is an option of Purge: Force, Reason, and every Option.
type PurgeOption interface {
	setter
	purges()
}

// OperateOption is an option of Pause, Resume, Terminate, Rewind and Retry: Stop, FromStart, Reason, and every Option.
type OperateOption interface {
	setter
	operates()
}

// ImportOption is an option of Import: Continue, Reason, and every Option.
type ImportOption interface {
	setter
	imports()
}

// PolicyOption is an option of SetPolicy, DeletePolicy, PauseAction and ResumeAction: By, Reason.
type PolicyOption interface {
	setter
	policies()
}

// JobOption is an option of Run: After, Retry, AttemptTimeout, Within, and every Option.
type JobOption interface {
	setter
	configure(j *Job)
}

// Option is an option of every message: By, MessageID.
type Option interface {
	StartOption
	PurgeOption
	OperateOption
	ImportOption
	PolicyOption
	JobOption
	UpdateOption
}

type setter interface {
	apply(in *message.OutInput)
}

// option sets a field of any message.
type option func(in *message.OutInput)

func (o option) apply(in *message.OutInput) { o(in) }
func (option) starts()                      {}
func (option) purges()                      {}
func (option) updates()                     {}
func (option) operates()                    {}
func (option) imports()                     {}
func (option) policies()                    {}
func (option) configure(*Job)               {}

// By sets the name of the requester. Default: Options.By.
func By(name string) Option {
	return option(func(in *message.OutInput) { in.By = name })
}

// MessageID sets the id of the message, at most 256 bytes and unique among the messages to the instance. A message with the same id has
// no effect within an hour. Default: every call generates an id.
func MessageID(id string) Option {
	return option(func(in *message.OutInput) { in.ID = id })
}

// Header sets a header of a start or an event: traceparent, tracestate, baggage, or one of at most 8 declared headers, with a name of 1
// to 64 letters, digits and hyphens and a value of at most 256 printable ASCII characters. The headers of a start are in
// pawl.InstanceInfo and pawl.ActivityInfo of the instance and of everything that it starts. An invalid header is dropped.
func Header(name, value string) Option { return Headers(history.Headers("").With(name, value)) }

// Headers sets several headers: see Header.
func Headers(all history.Headers) Option {
	return option(func(in *message.OutInput) {
		for name, value := range all.All() {
			in.Headers = in.Headers.With(name, value)
		}
	})
}

// startOption sets a field of a new instance.
type startOption func(in *message.OutInput)

func (o startOption) apply(in *message.OutInput) { o(in) }
func (startOption) starts()                      {}
func (startOption) updates()                     {}

// Version requests a version of the orchestration: 1 to 100 characters of the alphabet of names. By default an instance starts with the
// newest version that its orchestrator has. The version of an existing instance is not changed. If no orchestrator has the version, the
// instance waits until one registers it.
func Version(v string) InstanceOption {
	return startOption(func(in *message.OutInput) { in.Version = v })
}

// With sets an attribute of a new instance: client.With(Tenant.Is("acme")). The attributes of an existing instance are not changed. If
// the attribute is invalid, the call returns an error.
func With(a pawl.AttributeValue) InstanceOption {
	return startOption(func(in *message.OutInput) {
		x, err := author.AttributeOf(a)
		all, parseErr := attribute.Parse(in.Attrs)
		if err = cmp.Or(parseErr, err); err == nil {
			all, err = all.With(x)
		}
		if in.Attrs = all.String(); err != nil {
			in.Attrs = err.Error() // the check of the input reports it
		}
	})
}

// Attributes sets the attributes of a new instance from a JSON object, such as {"tenant": "acme", "items": 5, "paid": true, "due":
// {"time": "2026-11-22T08:00:00Z"}}. It replaces those of With options before it.
func Attributes(object string) InstanceOption {
	return startOption(func(in *message.OutInput) { in.Attrs = object })
}

type forceOption struct{}

func (forceOption) apply(in *message.OutInput) { in.Force = true }
func (forceOption) purges()                    {}

// Force purges an instance even if it is running: its code does not run again, its activities are cancelled with the reason Purged, and
// its children are cancelled.
func Force() PurgeOption { return forceOption{} }

type reasonOption string

func (r reasonOption) apply(in *message.OutInput) { in.Text = string(r) }
func (reasonOption) purges()                      {}
func (reasonOption) operates()                    {}
func (reasonOption) imports()                     {}
func (reasonOption) policies()                    {}

// Reason sets the reason for a purge, an operator request or a policy change, as histories, activities and children record it. It is cut
// at 8 KiB.
func Reason(text string) ReasonOption { return reasonOption(text) }

// ReasonOption is an option of Purge, Import, operator requests and policy changes.
type ReasonOption interface {
	PurgeOption
	operates()
	imports()
	policies()
}

type operateOption message.Operate

func (o operateOption) apply(in *message.OutInput) {
	in.Operate.Stop, in.Operate.Start = in.Operate.Stop || o.Stop, in.Operate.Start || o.Start
}
func (operateOption) operates() {}

// Stop makes a pause also cancel the outstanding activities, which run again after Resume.
func Stop() OperateOption { return operateOption{Stop: true} }

// FromStart makes Retry start the instance again with its input, and with the newest version of its orchestration.
func FromStart() OperateOption { return operateOption{Start: true} }

type jobOption func(*Job)

func (jobOption) apply(*message.OutInput) {}
func (o jobOption) configure(j *Job)      { o(j) }

type afterOption time.Duration

func (d afterOption) apply(in *message.OutInput) {
	if in.Name != builtin.JobName && d > 0 { // the delay of a job is part of the job
		in.StartAt = time.Duration(d).String()
	}
}
func (afterOption) starts()            {}
func (afterOption) updates()           {}
func (d afterOption) configure(j *Job) { j.After = Duration(max(time.Duration(d), 0)) }

// DelayOption is an option of Start, UpdateWithStart and Run.
type DelayOption interface {
	InstanceOption
	configure(j *Job)
}

// After delays a start, or the activity of a job, by d. Until then the instance is pending and can be cancelled. The Now of its code
// starts at that time. Default: no delay.
func After(d time.Duration) DelayOption { return afterOption(d) }

// StartAt delays a start until a time; a time in the past is no delay. See After.
func StartAt(at time.Time) InstanceOption {
	return startOption(func(in *message.OutInput) { in.StartAt = at.UTC().Format(time.RFC3339Nano) })
}

// RunTimeout fails an instance with pawl.ErrRunTimeout if it has not ended d after its start. Its activities and children are cancelled,
// and its code does not run again. The time starts when the stream accepts the start, or at the end of its delay, and spans all
// executions of continue-as-new. A pause suspends it, and a rewind restarts it. Default: no timeout.
func RunTimeout(d time.Duration) InstanceOption {
	return startOption(func(in *message.OutInput) { in.Timeout = d })
}

// IDReuse selects what a start does if an instance has its id. With every policy but Ignore, the message id (MessageID) identifies the
// start for an hour: a start with the same message id is a repeat of it.
type IDReuse struct{ policy history.Reuse }

// The policies of IDReuse. They must not be changed.
var (
	Ignore       = IDReuse{history.ReuseIgnore}       // the start has no effect; the default
	Reject       = IDReuse{history.ReuseReject}       // the start has no effect, and WaitStarted and Result return ErrIDTaken
	AfterFailure = IDReuse{history.ReuseAfterFailure} // a failed or cancelled instance is replaced; otherwise as Reject

	// TerminateExisting replaces the instance in every case. If it has not ended, it is terminated first, as by Client.Terminate: its
	// code does not run, its children are cancelled, and its history is kept as that of the previous execution. It requires the
	// permissions of the role operator.
	TerminateExisting = IDReuse{history.ReuseTerminate}
)

func (r IDReuse) apply(in *message.OutInput) { in.Reuse = r.policy }
func (IDReuse) starts()                      {}

// ParseIDReuse parses ignore, reject, after-failure or terminate-existing; "" is Ignore.
func ParseIDReuse(name string) (IDReuse, error) {
	r, ok := history.ParseReuse(name)
	if !ok {
		return IDReuse{}, fmt.Errorf("client: id reuse %.40q: want ignore, reject, after-failure or terminate-existing", name)
	}
	return IDReuse{r}, nil
}

// Retry retries failed attempts of a job according to the policy r, as for a call. Default: one attempt.
func Retry(r pawl.Retry) JobOption {
	return jobOption(func(j *Job) {
		j.Retry = &JobRetry{
			Attempts: r.Attempts, Initial: Duration(max(r.Initial, 0)), Factor: r.Factor, Max: Duration(max(r.Max, 0)), Limited: r.Limited,
		}
		for _, e := range r.Unless {
			j.Retry.Unless = append(j.Retry.Unless, e.Code())
		}
	})
}

// AttemptTimeout limits the duration of each attempt of a job: see pawl.AttemptTimeout. Default: no timeout.
func AttemptTimeout(d time.Duration) JobOption {
	return jobOption(func(j *Job) { j.AttemptTimeout = Duration(max(d, 0)) })
}

// Within limits the duration of a job with all its attempts, from the end of its delay: see pawl.Within. Default: no timeout.
func Within(d time.Duration) JobOption {
	return jobOption(func(j *Job) { j.Within = Duration(max(d, 0)) })
}
