package transport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
)

// maxMessage is the maximum size in bytes of the part of a list that is sent in one core-NATS message.
const maxMessage = 256 << 10

// SendDoorbells notifies the owner of a partition that inboxes have become non-empty. The error means that the message was not sent. It need
// not be handled: the owner finds the inboxes at most two seconds later. The receiver takes ownership of doorbells.
func (c *signals) SendDoorbells(partition int, doorbells []message.Doorbell) error {
	if c.opts.Local.sendDoorbells(c.opts.Namespace, partition, doorbells) {
		return nil
	}
	return inParts(doorbells, func(b message.Doorbell) int {
		return len(b.Instance) + len(b.Effect) + len(b.Element) + len(b.Proof) + 16
	}, func(part []message.Doorbell) error {
		return c.send(c.subj.doorbell(partition), encodeList(part, wireDoorbell))
	})
}

// OnDoorbells calls fn for every doorbell of a partition, in order. A doorbell may be forged: only its proof counts. Doorbells of workers in
// this process are passed on their goroutines.
func (c *signals) OnDoorbells(partition int, fn func([]message.Doorbell)) (*Subscription, error) {
	s, err := onMessage(c.link, c.subj.doorbell(partition), func(m *nats.Msg) error {
		doorbells, err := decodeList("doorbell", m.Data, wireDoorbell)
		for _, b := range doorbells {
			if err == nil {
				err = CheckInstance(b.Instance)
			}
		}
		if err == nil {
			fn(doorbells)
		}
		return err
	})
	if err == nil {
		s.before = c.opts.Local.serveDoorbells(c.opts.Namespace, partition, fn)
	}
	return s, err
}

// SendHints notifies a worker that its leases were deleted, or queries whether it holds them. The error need not be handled: the worker's next
// renewal has the same result, and a claim that no worker holds expires.
func (c *signals) SendHints(worker string, hints []message.Hint) error {
	if err := checkToken(worker); err != nil {
		return err
	}
	return inParts(hints, func(h message.Hint) int {
		return len(h.Instance) + len(h.Effect) + len(h.By) + len(h.Text) + len(h.Token) + 64
	}, func(part []message.Hint) error {
		return c.send(c.subj.hint(worker), encodeList(part, wireHint))
	})
}

// OnHints calls fn for every hint to a worker, in order. A hint may be forged: it is a reason to check, not a fact.
func (c *signals) OnHints(worker string, fn func([]message.Hint)) (*Subscription, error) {
	if err := checkToken(worker); err != nil {
		return nil, err
	}
	return onMessage(c.link, c.subj.hint(worker), func(m *nats.Msg) error {
		hints, err := decodeList("hint", m.Data, wireHint)
		if err == nil {
			fn(hints)
		}
		return err
	})
}

// Notify notifies all orchestrators of the namespace about a partition or a member.
func (c *signals) Notify(n Notice) error { return c.send(c.subj.notice(), wire.Encode(n.fields)) }

// OnNotices calls fn for every notice, including those of this process, in order.
func (c *signals) OnNotices(fn func(Notice)) (*Subscription, error) {
	return onMessage(c.link, c.subj.notice(), func(m *nats.Msg) error {
		var n Notice
		err := decode("notice", m.Data, n.fields)
		if err == nil && n.Partition >= c.parts {
			err = fmt.Errorf("%w: partition %d of %d", ErrMalformed, n.Partition, c.parts)
		}
		if err == nil {
			fn(n)
		}
		return err
	})
}

// AnnounceOwner makes the clients that wait for results from a partition repeat their requests: the partition has a new owner, or its owner
// was disconnected. The error need not be handled: clients repeat their requests every few seconds anyway.
func (c *signals) AnnounceOwner(partition int) error { return c.send(c.subj.owner(partition), nil) }

// OnOwners calls fn with the partition for every announcement of an owner, in order. An announcement may be forged: it only makes clients
// repeat their requests.
func (c *signals) OnOwners(fn func(partition int)) (*Subscription, error) {
	return onMessage(c.link, c.subj.ownerAll(), func(m *nats.Msg) error {
		p, err := strconv.Atoi(m.Subject[len(c.subj.ownerAll())-1:])
		if err != nil || p < 0 || p >= c.parts {
			return fmt.Errorf("%w: owner of partition %q", ErrMalformed, m.Subject)
		}
		fn(p)
		return nil
	})
}

// send publishes a core-NATS message. While the connection is lost it returns an error instead of buffering, because a late message is
// useless.
func (c *link) send(subject string, data []byte) error { return c.request(subject, "", data) }

// request is send with a reply subject; an empty one means none.
func (c *link) request(subject, reply string, data []byte) error {
	if !c.nc.IsConnected() {
		return ErrDisconnected
	}
	if err := checkSubject(subject); err != nil {
		return err
	}
	var err error
	if reply == "" {
		err = c.nc.Publish(subject, data)
	} else {
		err = c.nc.PublishRequest(subject, reply, data)
	}
	if err != nil {
		return fmt.Errorf("queue: publish to %s: %w", subject, err)
	}
	return nil
}

// onMessage calls fn for every message, in order. A message for which it returns an error is counted and logged as malformed.
func onMessage(c *link, subject string, fn func(m *nats.Msg) error) (*Subscription, error) {
	return subscribe(c.nc, subject, func(m *nats.Msg) {
		if err := fn(m); err != nil {
			c.ignore(m, err)
		}
	})
}

// ignore counts and logs a malformed message.
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

// checkToken checks the name of a worker, which must be a single token of a subject.
func checkToken(worker string) error {
	if worker == "" || len(worker) > MaxName || strings.ContainsAny(worker, ".*> \t\r\n") {
		return fmt.Errorf("%w: worker %.64q, want one token of a subject", ErrBadName, worker)
	}
	return nil
}
