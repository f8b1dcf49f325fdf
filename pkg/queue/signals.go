package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/wire"
)

// maxMessage is the size of the part of a list that is sent in one core-NATS message, in bytes.
const maxMessage = 256 << 10

// SendDoorbells notifies the owner of a partition that inboxes have become non-empty. The error means that the message was not sent.
// It need not be handled: the owner finds the inboxes two seconds later. The bells belong to the receiver.
func (c *signals) SendDoorbells(partition int, bells []Doorbell) error {
	if c.opts.Local.ring(c.opts.Namespace, partition, bells) {
		return nil
	}
	return inParts(bells, func(b Doorbell) int { return len(b.Instance) + len(b.Effect) + len(b.Element) + len(b.Proof) + 16 }, func(part []Doorbell) error {
		return c.send(c.subj.doorbell(partition), encodeList(part, wireDoorbell))
	})
}

// OnDoorbells calls fn for every doorbell of a partition, in order. A doorbell may be forged: only its proof counts.
// Those of workers in this process come on their goroutines.
func (c *signals) OnDoorbells(partition int, fn func([]Doorbell)) (*Subscription, error) {
	s, err := subscribe(c.nc, c.subj.doorbell(partition), func(m *nats.Msg) {
		bells, err := decodeList("doorbell", m.Data, wireDoorbell)
		for _, b := range bells {
			if err == nil {
				err = CheckInstance(b.Instance)
			}
		}
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(bells)
	})
	if err == nil {
		s.before = c.opts.Local.serveDoorbells(c.opts.Namespace, partition, fn)
	}
	return s, err
}

// SendHints notifies a worker that leases of it were deleted, or requests whether it has them. The error need not be
// handled: the worker's next renewal has the same result, and a claim that no worker has expires.
func (c *signals) SendHints(worker string, hints []Hint) error {
	if err := checkToken(worker); err != nil {
		return err
	}
	return inParts(hints, func(h Hint) int { return len(h.Instance) + len(h.Effect) + len(h.By) + len(h.Text) + len(h.Token) + 64 }, func(part []Hint) error {
		return c.send(c.subj.hint(worker), encodeList(part, wireHint))
	})
}

// OnHints calls fn for every hint to a worker, in order. A hint may be forged: it is a reason to check, not a fact.
func (c *signals) OnHints(worker string, fn func([]Hint)) (*Subscription, error) {
	if err := checkToken(worker); err != nil {
		return nil, err
	}
	return subscribe(c.nc, c.subj.hint(worker), func(m *nats.Msg) {
		hints, err := decodeList("hint", m.Data, wireHint)
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(hints)
	})
}

// Notify notifies all orchestrators of the namespace about a partition or a member.
func (c *signals) Notify(n Notice) error { return c.send(c.subj.notice(), wire.Encode(n.fields)) }

// OnNotices calls fn for every notice, including those of this process, in order.
func (c *signals) OnNotices(fn func(Notice)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.notice(), func(m *nats.Msg) {
		var n Notice
		err := decode("notice", m.Data, n.fields)
		if err == nil && n.Partition >= c.parts {
			err = fmt.Errorf("%w: partition %d of %d", ErrMalformed, n.Partition, c.parts)
		}
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(n)
	})
}

// AnnounceOwner has the clients that wait for results from a partition repeat their requests: the partition has a new
// owner, or its owner was disconnected. The error need not be handled: clients repeat their requests every few seconds
// anyway.
func (c *signals) AnnounceOwner(partition int) error { return c.send(c.subj.owner(partition), nil) }

// OnOwners calls fn with the partition for every announcement of an owner, in order. An announcement may be forged: its
// only effect is that requests are repeated.
func (c *signals) OnOwners(fn func(partition int)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.ownerAll(), func(m *nats.Msg) {
		p, err := strconv.Atoi(m.Subject[len(c.subj.ownerAll())-1:])
		if err != nil || p < 0 || p >= c.parts {
			c.ignore(m, fmt.Errorf("%w: owner of partition %q", ErrMalformed, m.Subject))
			return
		}
		fn(p)
	})
}

// send publishes a core-NATS message. While the connection is lost it returns an error and does not buffer: a late message
// is of no use.
func (c *link) send(subject string, data []byte) error {
	if !c.nc.IsConnected() {
		return ErrDisconnected
	}
	if err := checkSubject(subject); err != nil {
		return err
	}
	if err := c.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("queue: publish to %s: %w", subject, err)
	}
	return nil
}

func (c *link) ignore(m *nats.Msg, err error) {
	c.count.ignored.Add(1)
	c.log.Debug("malformed message ignored", "subject", m.Subject, "bytes", len(m.Data), "error", err)
}

// inParts sends a list in as few messages as possible.
func inParts[T any](items []T, size func(T) int, send func([]T) error) error {
	for len(items) > 0 {
		n, total := 0, 0
		for n < len(items) && (n == 0 || total+size(items[n]) <= maxMessage) {
			total += size(items[n])
			n++
		}
		if err := send(items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// checkToken checks the name of a process, which is one token of a subject.
func checkToken(worker string) error {
	if worker == "" || len(worker) > MaxName || strings.ContainsAny(worker, ".*> \t\r\n") {
		return fmt.Errorf("%w: worker %.64q, want one token of a subject", ErrBadName, worker)
	}
	return nil
}
