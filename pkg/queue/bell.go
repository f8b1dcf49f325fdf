package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/wire"
)

// maxMessage is how much of a list goes into one core-NATS message, in bytes.
const maxMessage = 256 << 10

// Ring tells the owner of a partition that inboxes have become non-empty. The error
// says that it could not be sent; it need not be handled, for the look finds the
// inboxes two seconds later.
func (c *Conn) Ring(partition int, bells []Bell) error {
	return inParts(bells, func(b Bell) int { return len(b.Instance) + len(b.Effect) + len(b.Element) + len(b.Proof) + 16 }, func(part []Bell) error {
		return c.send(c.subj.bell(partition), encodeList(part, wireBell))
	})
}

// OnBells calls fn for every doorbell of a partition, in order. A doorbell may be forged: only its proof tells.
func (c *Conn) OnBells(partition int, fn func([]Bell)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.bell(partition), func(m *nats.Msg) {
		bells, err := decodeList("doorbell", m.Data, wireBell)
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
}

// SendHints tells a worker that leases of its were deleted, or asks whether it has them. The error need not be
// handled: the worker's next renewal says the same, and a claim that no worker has expires.
func (c *Conn) SendHints(worker string, hints []Hint) error {
	if err := checkToken(worker); err != nil {
		return err
	}
	return inParts(hints, func(h Hint) int { return len(h.Instance) + len(h.Effect) + len(h.By) + len(h.Text) + len(h.Token) + 64 }, func(part []Hint) error {
		return c.send(c.subj.hint(worker), encodeList(part, wireHint))
	})
}

// OnHints calls fn for every hint to a worker, in order. A hint may be forged: it
// says where to look, not what is so.
func (c *Conn) OnHints(worker string, fn func([]Hint)) (*Subscription, error) {
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

// Notify tells all orchestrators of the namespace about a partition or a member.
func (c *Conn) Notify(n Notice) error { return c.send(c.subj.notice(), wire.Encode(n.fields)) }

// OnNotices calls fn for every notice, also for those of this process, in order.
func (c *Conn) OnNotices(fn func(Notice)) (*Subscription, error) {
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

// AnnounceOwner tells the clients that wait for something in a partition to request it again: the partition has an
// owner that does not know them, or one that could not reach them for a while. The error need not be handled: clients
// request again every few seconds anyway.
func (c *Conn) AnnounceOwner(partition int) error { return c.send(c.subj.owner(partition), nil) }

// OnOwners calls fn for every announcement of an owner, in order, with the partition. An announcement may be forged: it
// says when to request again, and nothing else.
func (c *Conn) OnOwners(fn func(partition int)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.ownerAll(), func(m *nats.Msg) {
		p, err := strconv.Atoi(m.Subject[len(c.subj.ownerAll())-1:])
		if err != nil || p < 0 || p >= c.parts {
			c.ignore(m, fmt.Errorf("%w: owner of partition %q", ErrMalformed, m.Subject))
			return
		}
		fn(p)
	})
}

// send publishes a core-NATS message. While the connection is lost it is not kept
// for later: a hurry that comes late hurries nobody.
func (c *Conn) send(subject string, data []byte) error {
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

func (c *Conn) ignore(m *nats.Msg, err error) {
	c.count.ignored.Add(1)
	c.log.Debug("a message on one of our subjects is not one of ours", "subject", m.Subject, "bytes", len(m.Data), "error", err)
}

// inParts sends a list in as few messages as fit.
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

// checkToken is for names of processes, which are one token of a subject.
func checkToken(worker string) error {
	if worker == "" || len(worker) > MaxName || strings.ContainsAny(worker, ".*> \t\r\n") {
		return fmt.Errorf("%w: worker %.64q, want one token of a subject", ErrBadName, worker)
	}
	return nil
}
