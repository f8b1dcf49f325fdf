package client

import "github.com/pawlrun/pawl/pkg/queue"

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

// Option is an option of every message: By, MessageID.
type Option interface {
	StartOption
	PurgeOption
}

type setter interface {
	apply(in *queue.OutInput)
}

type byOption string

func (b byOption) apply(in *queue.OutInput) { in.By = string(b) }
func (byOption) starts()                    {}
func (byOption) purges()                    {}

// By names the requester, instead of Options.By.
func By(name string) Option { return byOption(name) }

type idOption string

func (i idOption) apply(in *queue.OutInput) { in.ID = string(i) }
func (idOption) starts()                    {}
func (idOption) purges()                    {}

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
