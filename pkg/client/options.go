package client

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// StartOption is an option of Start and SendOrStart: an IDReuse, every InstanceOption, and every Option.
type StartOption interface {
	setter
	starts()
}

// InstanceOption is an option of a new instance, and so of Start, SendOrStart and UpdateWithStart: Version, With, Attributes, After,
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
	configure(j *builtin.Job)
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
	apply(in *queue.OutInput)
}

type byOption string

func (b byOption) apply(in *queue.OutInput) { in.By = string(b) }
func (byOption) starts()                    {}
func (byOption) purges()                    {}
func (byOption) updates()                   {}
func (byOption) operates()                  {}
func (byOption) imports()                   {}
func (byOption) policies()                  {}
func (byOption) configure(*builtin.Job)     {}

// By names the requester, instead of Options.By.
func By(name string) Option { return byOption(name) }

type idOption string

func (i idOption) apply(in *queue.OutInput) { in.ID = string(i) }
func (idOption) starts()                    {}
func (idOption) purges()                    {}
func (idOption) updates()                   {}
func (idOption) operates()                  {}
func (idOption) imports()                   {}
func (idOption) policies()                  {}
func (idOption) configure(*builtin.Job)     {}

// MessageID sets the id of the message, at most 256 bytes, unique among the messages to the instance: a repeat of it within an hour
// has no effect. Without this option every call generates an id.
func MessageID(id string) Option { return idOption(id) }

type headerOption history.Headers

func (h headerOption) apply(in *queue.OutInput) {
	for name, value := range history.Headers(h).All() {
		in.Headers = in.Headers.With(name, value)
	}
}
func (headerOption) starts()                {}
func (headerOption) purges()                {}
func (headerOption) updates()               {}
func (headerOption) operates()              {}
func (headerOption) imports()               {}
func (headerOption) policies()              {}
func (headerOption) configure(*builtin.Job) {}

// Header sets a header of a start or an event: traceparent, tracestate, baggage, or a declared header, of which there may be 8, with
// names of 1 to 64 letters, digits and hyphens and values of at most 256 printable ASCII characters. Headers of a start are in
// pawl.ActivityInfo and pawl.InstanceInfo of all that follows from it. A header that is not well-formed is dropped.
func Header(name, value string) Option { return Headers(history.Headers("").With(name, value)) }

// Headers is Header for several.
func Headers(all history.Headers) Option { return headerOption(all) }

type versionOption string

func (v versionOption) apply(in *queue.OutInput) { in.Version = string(v) }
func (versionOption) starts()                    {}
func (versionOption) updates()                   {}

// Version requests a version of the orchestration: 1 to 100 characters of the alphabet of names. Without it an instance gets the
// newest that its orchestrator has. The version of an existing instance is not changed. An instance whose version no orchestrator has
// waits until one registers it.
func Version(v string) InstanceOption { return versionOption(v) }

type attributeOption pawl.AttributeValue

func (a attributeOption) apply(in *queue.OutInput) { // an error is that of the check of the input
	all, err := history.ParseAttributes(in.Attrs)
	if err == nil {
		err = a.Err
	}
	if err == nil {
		all, err = all.With(a.Attribute)
	}
	if in.Attrs = all.String(); err != nil {
		in.Attrs = err.Error()
	}
}
func (attributeOption) starts()  {}
func (attributeOption) updates() {}

// With gives a new instance an attribute: client.With(Tenant.Is("acme")). The attributes of an existing instance are not changed. An
// invalid one is the error of the call.
func With(a pawl.AttributeValue) InstanceOption { return attributeOption(a) }

type attributesOption string

func (a attributesOption) apply(in *queue.OutInput) { in.Attrs = string(a) }
func (attributesOption) starts()                    {}
func (attributesOption) updates()                   {}

// Attributes gives a new instance attributes from JSON, such as {"tenant": "acme", "items": 5, "paid": true, "due": {"time":
// "2026-11-22T08:00:00Z"}}, in place of those of With.
func Attributes(object string) InstanceOption { return attributesOption(object) }

type forceOption struct{}

func (forceOption) apply(in *queue.OutInput) { in.Force = true }
func (forceOption) purges()                  {}

// Force purges an instance also if it is running: its code does not run again, its activities are cancelled with the reason Purged,
// and its children are cancelled.
func Force() PurgeOption { return forceOption{} }

type reasonOption string

func (r reasonOption) apply(in *queue.OutInput) { in.Text = string(r) }
func (reasonOption) purges()                    {}
func (reasonOption) operates()                  {}
func (reasonOption) imports()                   {}
func (reasonOption) policies()                  {}

// Reason is why an instance is purged, or an operator makes a request, as histories, activities and children record it, or why a policy is
// changed. A text is cut at 8 KiB.
func Reason(text string) ReasonOption { return reasonOption(text) }

// ReasonOption is an option of Purge, of the requests of operators, and of the changes of policies.
type ReasonOption interface {
	PurgeOption
	operates()
	imports()
	policies()
}

type operateOption queue.Operate

func (o operateOption) apply(in *queue.OutInput) {
	in.Operate.Stop, in.Operate.Start = in.Operate.Stop || o.Stop, in.Operate.Start || o.Start
}
func (operateOption) operates() {}

// Stop has a pause also cancel the outstanding activities; they run again after the resumption.
func Stop() OperateOption { return operateOption{Stop: true} }

// FromStart has Retry start the instance again with its input, and with the newest version of its orchestration.
func FromStart() OperateOption { return operateOption{Start: true} }

type jobOption func(*builtin.Job)

func (jobOption) apply(*queue.OutInput)      {}
func (o jobOption) configure(j *builtin.Job) { o(j) }

type afterOption time.Duration

func (d afterOption) apply(in *queue.OutInput) {
	if in.Name != builtin.JobName && d > 0 { // a job has its own
		in.StartAt = time.Duration(d).String()
	}
}
func (afterOption) starts()                    {}
func (afterOption) updates()                   {}
func (d afterOption) configure(j *builtin.Job) { j.After = text.Duration(max(time.Duration(d), 0)) }

// DelayOption is an option of Start, UpdateWithStart and Run.
type DelayOption interface {
	InstanceOption
	configure(j *builtin.Job)
}

// After delays a start, or the activity of a job, by d. Until then the instance is pending, and can be cancelled; its code begins with that
// time as its Now. Default: at once.
func After(d time.Duration) DelayOption { return afterOption(d) }

type startOption func(in *queue.OutInput)

func (o startOption) apply(in *queue.OutInput) { o(in) }
func (startOption) starts()                    {}
func (startOption) updates()                   {}

// StartAt delays a start until a time; one in the past is no delay. See After.
func StartAt(at time.Time) InstanceOption {
	return startOption(func(in *queue.OutInput) { in.StartAt = at.UTC().Format(time.RFC3339Nano) })
}

// RunTimeout fails an instance with pawl.ErrRunTimeout that has not ended d after its start: its activities and children are cancelled, and
// its code does not run again. The time counts from the acceptance of the start, or from the end of its delay, over all executions of
// continue-as-new; a pause suspends it, and a rewind begins it anew. Default: none.
func RunTimeout(d time.Duration) InstanceOption {
	return startOption(func(in *queue.OutInput) { in.Timeout = d })
}

// IDReuse is what a start does with an instance that has its id. With each but Ignore the message id (MessageID) identifies the start
// for an hour: a repeat of it is the same start.
type IDReuse struct{ policy history.Reuse }

// The policies.
var (
	Ignore       = IDReuse{history.ReuseIgnore}       // the start has no effect: the default
	Reject       = IDReuse{history.ReuseReject}       // the start has no effect, and WaitStarted and Result return ErrIDTaken
	AfterFailure = IDReuse{history.ReuseAfterFailure} // one that was failed or cancelled is replaced; otherwise as Reject

	// TerminateExisting replaces it in any case. If it has not ended, it is terminated first, as by Client.Terminate: its code does not
	// run, its children are cancelled, and its history is kept as that of the previous execution. It requires the permissions of an
	// operator.
	TerminateExisting = IDReuse{history.ReuseTerminate}
)

func (r IDReuse) apply(in *queue.OutInput) { in.Reuse = r.policy }
func (IDReuse) starts()                    {}

// ParseIDReuse reads ignore, reject, after-failure or terminate-existing; "" is Ignore.
func ParseIDReuse(name string) (IDReuse, error) {
	r, ok := history.ParseReuse(name)
	if !ok {
		return IDReuse{}, fmt.Errorf("client: id reuse %.40q: want ignore, reject, after-failure or terminate-existing", name)
	}
	return IDReuse{r}, nil
}

// Retry repeats failed attempts of a job, as it repeats those of a call. Default: one attempt.
func Retry(r pawl.Retry) JobOption {
	return jobOption(func(j *builtin.Job) {
		j.Retry = &builtin.Retry{
			Attempts: r.Attempts, Initial: text.Duration(max(r.Initial, 0)), Factor: r.Factor, Max: text.Duration(max(r.Max, 0)), Limited: r.Limited,
		}
		for _, e := range r.Unless {
			j.Retry.Unless = append(j.Retry.Unless, e.Code())
		}
	})
}

// AttemptTimeout is pawl.AttemptTimeout for a job. Default: none.
func AttemptTimeout(d time.Duration) JobOption {
	return jobOption(func(j *builtin.Job) { j.AttemptTimeout = text.Duration(max(d, 0)) })
}

// Within is pawl.Within for a job, counted from the end of After. Default: none.
func Within(d time.Duration) JobOption {
	return jobOption(func(j *builtin.Job) { j.Within = text.Duration(max(d, 0)) })
}
