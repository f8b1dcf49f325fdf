package client

import "github.com/pawlrun/pawl/pkg/queue"

// StartOption is an option of what may start an instance: Version, and every Option.
type StartOption interface {
	setter
	starts()
}

// PurgeOption is an option of Purge: Force, Because, and every Option.
type PurgeOption interface {
	setter
	purges()
}

// Option is an option of everything that is sent: By, MessageID.
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

// By names who asks, in place of Options.By.
func By(name string) Option { return byOption(name) }

type idOption string

func (i idOption) apply(in *queue.OutInput) { in.ID = string(i) }
func (idOption) starts()                    {}
func (idOption) purges()                    {}

// MessageID gives the message an id of the caller's, at most 256 bytes, unique among
// the messages to the instance: a repeat of it within an hour takes no effect. Without
// this option every call makes an id of its own.
func MessageID(id string) Option { return idOption(id) }

type versionOption string

func (v versionOption) apply(in *queue.OutInput) { in.Version = string(v) }
func (versionOption) starts()                    {}

// Version asks for a version of the orchestration: 1 to 100 characters of the alphabet
// of names. Without it an instance gets the newest that its orchestrator has. The version
// of an instance that exists is not changed. An instance whose version no orchestrator
// has waits until one appears.
func Version(v string) StartOption { return versionOption(v) }

type forceOption struct{}

func (forceOption) apply(in *queue.OutInput) { in.Force = true }
func (forceOption) purges()                  {}

// Force purges an instance also if it runs: its code is not asked, its activities are
// cancelled with the reason Purged, and its children are cancelled.
func Force() PurgeOption { return forceOption{} }

type becauseOption string

func (b becauseOption) apply(in *queue.OutInput) { in.Text = string(b) }
func (becauseOption) purges()                    {}

// Because says why an instance is purged: what is cancelled by it is told. A text is cut at 8 KiB.
func Because(text string) PurgeOption { return becauseOption(text) }
