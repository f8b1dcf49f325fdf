package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/wire"
)

// StoredObject is an object of the store, without its body.
type StoredObject struct {
	Name   string
	Owners []string
	At     time.Time // time at which it was written, by the server's clock
	before uint64    // its parts have lower sequences
}

// subjectsPage is a page of the subjects of a stream.
type subjectsPage struct {
	Total     int       `json:"total"`
	TimeStamp time.Time `json:"ts"`
	State     struct {
		LastSeq  uint64            `json:"last_seq"`
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// names calls each with pages of at most 100,000 names of objects that have a subject matching filter, which contains wildcards for the
// name. Names that appear or disappear in the meantime may be missing.
func (c *objects) names(ctx context.Context, filter, suffix string, each func(p *subjectsPage, names []string) error) error {
	prefix := strings.TrimSuffix(strings.TrimSuffix(filter, suffix), "*.*")
	for offset := 0; ; {
		var p subjectsPage
		request := struct {
			Filter string `json:"subjects_filter"`
			Offset int    `json:"offset"`
		}{filter, offset}
		if err := c.streams.api(ctx, "STREAM.INFO."+objectsStream(c.opts.Namespace), request, &p); err != nil {
			return err
		}
		names := make([]string, 0, len(p.State.Subjects))
		for subject := range p.State.Subjects {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(subject, prefix), suffix))
		}
		if err := each(&p, names); err != nil {
			return err
		}
		if offset += len(names); len(names) == 0 || offset >= p.Total {
			return nil
		}
	}
}

// Objects calls each with pages of the objects that are older than age by the server's clock. If there are none, it is called once.
func (c *objects) Objects(ctx context.Context, age time.Duration, each func([]StoredObject) error) error {
	return c.names(ctx, c.subj.object("*", objectOwners), "."+objectOwners, func(p *subjectsPage, names []string) error {
		var page []StoredObject
		for _, name := range names {
			m, at, _, err := c.getStored(ctx, c.subj.objectPart(name, objectOwners))
			if err != nil {
				return err
			}
			if m == nil || p.TimeStamp.Sub(at) < age {
				continue
			}
			o := StoredObject{Name: name, At: at, before: p.State.LastSeq + 1}
			if err := wire.Decode(m.Data, ownersFields(&o.Owners)); err != nil {
				o.Owners = nil // written by a foreign program
			}
			page = append(page, o)
		}
		return each(page)
	})
}

// getStored reads a message of the store, nil if it is gone, the time at which the server stored it, and its sequence.
func (c *objects) getStored(ctx context.Context, subject string) (m *nats.Msg, at time.Time, seq uint64, err error) {
	if m, err = c.getPart(ctx, subject, 0); errors.Is(err, ErrNoObject) {
		return nil, at, 0, nil
	}
	if err == nil {
		at, seq, err = storedAt(m)
	}
	return m, at, seq, err
}

// storedAt returns the time at which the server stored a message, and its sequence.
func storedAt(m *nats.Msg) (at time.Time, seq uint64, err error) {
	header := func(key string) string {
		return cmp.Or(m.Header.Get(key), m.Header.Get(textproto.CanonicalMIMEHeaderKey(key)))
	}
	if at, err = time.Parse(time.RFC3339Nano, header(jetstream.TimeStampHeaer)); err == nil {
		seq, err = strconv.ParseUint(header(jetstream.SequenceHeader), 10, 64)
	}
	if err != nil {
		err = fmt.Errorf("%w: headers of a direct get: %w", ErrMalformed, err)
	}
	return at, seq, err
}

// Mark is the mark of an object that is about to be removed.
type Mark struct {
	At   time.Time // by the server's clock
	Age  time.Duration
	name string
	seq  uint64
}

// Marked returns all marks, by object name.
func (c *objects) Marked(ctx context.Context) (map[string]Mark, error) {
	marks := make(map[string]Mark)
	err := c.names(ctx, c.subj.removing("*.*"), "", func(p *subjectsPage, names []string) error {
		for _, name := range names {
			m, at, seq, err := c.getStored(ctx, c.subj.removing(name))
			if err != nil {
				return err
			}
			if m != nil {
				marks[name] = Mark{at, p.TimeStamp.Sub(at), name, seq}
			}
		}
		return nil
	})
	return marks, err
}

// MarkObject marks an object. It has no effect on an object that is already marked.
func (c *objects) MarkObject(ctx context.Context, name string) error {
	_, err := c.putPart(ctx, c.subj.removing(name), nil)
	return err
}

// unmarked returns ErrRemoving if the object is marked.
func (c *objects) unmarked(ctx context.Context, name string) error {
	switch _, err := c.getPart(ctx, c.subj.removing(name), 0); {
	case err == nil:
		return ErrRemoving
	case errors.Is(err, ErrNoObject):
		return nil
	default:
		return err
	}
}

// UnmarkObject removes the mark of an object, but no later one.
func (c *objects) UnmarkObject(ctx context.Context, m Mark) error {
	return c.purgeObjects(ctx, c.subj.removing(m.name), m.seq+1)
}

// RemoveObject removes the parts that an object had when it was listed, in one step. Its mark stays.
func (c *objects) RemoveObject(ctx context.Context, o StoredObject) error {
	return c.purgeObjects(ctx, c.subj.objectPart(o.Name, "*"), o.before)
}

// purgeObjects removes the matching messages with sequences below before.
func (c *objects) purgeObjects(ctx context.Context, filter string, before uint64) error {
	var answer struct {
		Purged uint64 `json:"purged"`
	}
	request := struct {
		Filter   string `json:"filter"`
		Sequence uint64 `json:"seq"`
	}{filter, before}
	return c.streams.api(ctx, "STREAM.PURGE."+objectsStream(c.opts.Namespace), request, &answer)
}
