package transport

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
)

// Defaults of Options.
const (
	DefaultNamespace  = "default"
	DefaultPartitions = 64

	DefaultReplyPrefix = "_INBOX"
	// DefaultInputsMaxBytes is enough for ten minutes of inputs at 1.7 MB/s.
	DefaultInputsMaxBytes = 1 << 30
)

// Options are the settings of a Conn. The zero value is usable.
type Options struct {
	Namespace string // default "default"; 1 to 64 characters of A-Z a-z 0-9 _ -

	// Partitions is fixed when the namespace is created. Open: default 64, maximum 1024; it is an error if the stream has another number.
	// Join: 0 accepts the number of the stream.
	Partitions int

	Replicas       int   // number of replicas of both streams, when Open creates them; default 1
	InputsMaxBytes int64 // size limit of INPUTS, set by Open; default 1 GiB; NATS reserves it

	ObjectsMaxBytes int64 // size limit of OBJECTS, set by EnsureObjects; default none; NATS reserves it

	// AckWait is the time within which a worker must claim a delivered task before the task is delivered again; default 10 s. It must not
	// exceed the lease TTL. Tasks that were delivered to a worker that is then disconnected wait that long.
	AckWait time.Duration

	// ReplyPrefixes are the prefixes of subjects to which orchestrators and workers reply. The default is DefaultReplyPrefix, which matches
	// the inboxes of NATS, including those of a role ("_INBOX_client"). Replies are never sent to subjects of the server ("$") or of Pawl.
	ReplyPrefixes []string

	// PublishTimeout is the maximum wait for an acknowledgement; default 3 s.
	PublishTimeout time.Duration

	Local *Local // shortcut to the other role in this process; default: none

	Logger *slog.Logger     // default: discard
	Outage *outage.Reporter // outage reporter of the process; default: one of the Conn's own
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.InputsMaxBytes = cmp.Or(o.InputsMaxBytes, DefaultInputsMaxBytes)
	o.AckWait = cmp.Or(o.AckWait, 10*time.Second)
	o.PublishTimeout = cmp.Or(o.PublishTimeout, 3*time.Second)
	if len(o.ReplyPrefixes) == 0 {
		o.ReplyPrefixes = []string{DefaultReplyPrefix}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) check() error {
	if err := checkNamespace(o.Namespace); err != nil {
		return err
	}
	if o.Partitions < 0 || o.Partitions > MaxPartitions {
		return fmt.Errorf("queue: %d partitions, want 1 to %d", o.Partitions, MaxPartitions)
	}
	if o.Replicas < 1 || o.InputsMaxBytes < 0 || o.ObjectsMaxBytes < 0 || o.AckWait < 0 || o.PublishTimeout < 0 {
		return fmt.Errorf("queue: negative option (replicas %d, inputs max bytes %d, objects max bytes %d, ack wait %s, publish timeout %s)",
			o.Replicas, o.InputsMaxBytes, o.ObjectsMaxBytes, o.AckWait, o.PublishTimeout)
	}
	return CheckReplyPrefixes(o.ReplyPrefixes)
}

// CheckReplyPrefixes returns an error unless each prefix can be the beginning of a subject that belongs neither to the server nor to
// Pawl.
func CheckReplyPrefixes(prefixes []string) error {
	for _, p := range prefixes {
		if strings.Contains(p, "..") || !safeReply(strings.TrimSuffix(p, ".")+".x") {
			return fmt.Errorf("queue: reply prefix %q: want the beginning of a subject, without wildcards, and not $ or pawl", p)
		}
	}
	return nil
}
