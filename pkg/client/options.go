package client

import "github.com/pawlrun/pawl/pkg/queue"

// StartOption is an option of what may start an instance: Version, and every Option.
type StartOption interface {
	apply(in *queue.OutInput)
}

// Option is an option of everything that is sent: By, MessageID.
type Option interface {
	StartOption
	everywhere()
}

type byOption string

func (b byOption) apply(in *queue.OutInput) { in.By = string(b) }
func (byOption) everywhere()                {}

// By names who asks, in place of Options.By.
func By(name string) Option { return byOption(name) }

type idOption string

func (i idOption) apply(in *queue.OutInput) { in.ID = string(i) }
func (idOption) everywhere()                {}

// MessageID gives the message an id of the caller's, at most 256 bytes, unique among
// the messages to the instance: a repeat of it within an hour takes no effect. Without
// this option every call makes an id of its own.
func MessageID(id string) Option { return idOption(id) }

type versionOption string

func (v versionOption) apply(in *queue.OutInput) { in.Version = string(v) }

// Version asks for a version of the orchestration: 1 to 100 characters of the alphabet
// of names. Without it an instance gets the newest that its orchestrator has. The version
// of an instance that exists is not changed. An instance whose version no orchestrator
// has waits until one appears.
func Version(v string) StartOption { return versionOption(v) }
