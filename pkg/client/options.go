package client

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/queue"
)

// StartOption is an option of Start and SendOrStart: Version, and every Option.
type StartOption interface {
	setter
	starts()
}

// PurgeOption is an option of Purge: Force, Reason, and every Option.
type PurgeOption interface {
	setter
	purges()
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
	JobOption
}

type setter interface {
	apply(in *queue.OutInput)
}

type byOption string

func (b byOption) apply(in *queue.OutInput) { in.By = string(b) }
func (byOption) starts()                    {}
func (byOption) purges()                    {}
func (byOption) configure(*builtin.Job)     {}

// By names the requester, instead of Options.By.
func By(name string) Option { return byOption(name) }

type idOption string

func (i idOption) apply(in *queue.OutInput) { in.ID = string(i) }
func (idOption) starts()                    {}
func (idOption) purges()                    {}
func (idOption) configure(*builtin.Job)     {}

// MessageID sets the id of the message, at most 256 bytes, unique among the messages to the instance: a repeat of it within an hour
// has no effect. Without this option every call generates an id.
func MessageID(id string) Option { return idOption(id) }

type versionOption string

func (v versionOption) apply(in *queue.OutInput) { in.Version = string(v) }
func (versionOption) starts()                    {}

// Version requests a version of the orchestration: 1 to 100 characters of the alphabet of names. Without it an instance gets the
// newest that its orchestrator has. The version of an existing instance is not changed. An instance whose version no orchestrator has
// waits until one registers it.
func Version(v string) StartOption { return versionOption(v) }

type forceOption struct{}

func (forceOption) apply(in *queue.OutInput) { in.Force = true }
func (forceOption) purges()                  {}

// Force purges an instance also if it is running: its code does not run again, its activities are cancelled with the reason Purged,
// and its children are cancelled.
func Force() PurgeOption { return forceOption{} }

type reasonOption string

func (r reasonOption) apply(in *queue.OutInput) { in.Text = string(r) }
func (reasonOption) purges()                    {}

// Reason is why an instance is purged, as its activities and children record it. A text is cut at 8 KiB.
func Reason(text string) PurgeOption { return reasonOption(text) }

type jobOption func(*builtin.Job)

func (jobOption) apply(*queue.OutInput)      {}
func (o jobOption) configure(j *builtin.Job) { o(j) }

// After delays a job: its activity is scheduled d after its start. Default: at once.
func After(d time.Duration) JobOption {
	return jobOption(func(j *builtin.Job) { j.After = text.Duration(max(d, 0)) })
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
