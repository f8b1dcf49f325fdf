package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// UpdateOption is an option of Update and UpdateWithStart: UpdateID, Deadline, and every Option. UpdateWithStart also accepts every
// InstanceOption, which Update refuses.
type UpdateOption interface {
	setter
	updates()
}

// UpdateID sets the id of an update, at most 200 bytes, unique among the updates with its name to the instance. A repeated update with
// the id receives the answer of the first one and is not executed again, while that is open and for 1,000 further answers. By default
// every call generates an id.
func UpdateID(id string) UpdateOption { return MessageID(id) }

type deadlineOption time.Duration

func (d deadlineOption) apply(in *message.OutInput) { in.Deadline = time.Duration(d) }
func (deadlineOption) updates()                     {}

// Deadline makes an update expire d after INPUTS has accepted it, unless the code has received it by then. The answer is then
// pawl.ErrUpdateExpired, and the update is never executed. Default: it waits for as long as the instance exists.
func Deadline(d time.Duration) UpdateOption { return deadlineOption(d) }

// Update sends an update to an instance and waits for its answer. The error is a *pawl.Failure if the update was rejected: it matches the
// sentinels of the code, pawl.ErrUpdateExpired, or pawl.ErrUpdateEnded if the instance ended before it answered.
//
// The instance need not exist yet: an update for an unknown id is kept for 24 hours. When ctx ends, the update is not withdrawn and may
// be answered later; a call with the same UpdateID returns that answer. Other errors are those of Send and of Instance.Result.
func Update[In, Out any](ctx context.Context, c *Client, u pawl.Update[In, Out], id string, in In, opts ...UpdateOption) (out Out, _ error) {
	sent, err := SendUpdate(ctx, c, u, id, in, opts...)
	if err != nil {
		return out, err
	}
	return sent.Answer(ctx)
}

// SendUpdate sends an update without waiting for the answer. It returns when the stream has stored the update.
func SendUpdate[In, Out any](ctx context.Context, c *Client, u pawl.Update[In, Out], id string, in In, opts ...UpdateOption) (*SentUpdate[Out], error) {
	p, err := author.Input(u).Encode(in)
	if err != nil {
		return nil, fmt.Errorf("client: update %s of %s: %w", u.Name(), id, err)
	}
	raw, err := c.SendUpdateRaw(ctx, u.Name(), id, p, opts...)
	if err != nil {
		return nil, err
	}
	return &SentUpdate[Out]{raw: raw, decode: author.Result(u).Decode}, nil
}

// UpdateWithStart sends an update to an instance, and starts the instance with in if the id is free, in one message. It waits for the
// answer to the update; use Attach for the result of the instance. If the instance is running, in and every InstanceOption have no
// effect. If it has ended, the update has no effect either, and the answer is pawl.ErrUpdateEnded. Errors are those of Update and
// SendOrStart.
func UpdateWithStart[In, Out, UpdateIn, UpdateOut any](
	ctx context.Context, c *Client, o pawl.Orchestration[In, Out], id string, in In, u pawl.Update[UpdateIn, UpdateOut], v UpdateIn, opts ...UpdateOption,
) (zero UpdateOut, _ error) {
	input, err := author.Input(o).Encode(in)
	if err != nil {
		return zero, fmt.Errorf("client: start %s: %w", id, err)
	}
	p, err := author.Input(u).Encode(v)
	if err != nil {
		return zero, fmt.Errorf("client: update %s of %s: %w", u.Name(), id, err)
	}
	raw, err := c.UpdateWithStartRaw(ctx, o.Name(), id, input, u.Name(), p, opts...)
	if err != nil {
		return zero, err
	}
	return (&SentUpdate[UpdateOut]{raw: raw, decode: author.Result(u).Decode}).Answer(ctx)
}

// AttachUpdate returns the handle to an update that was sent elsewhere. It makes no request.
func AttachUpdate[In, Out any](c *Client, u pawl.Update[In, Out], id, updateID string) *SentUpdate[Out] {
	return &SentUpdate[Out]{raw: c.AttachUpdateRaw(u.Name(), id, updateID), decode: author.Result(u).Decode}
}

// SentUpdate is a handle to an update that the stream has stored. It is safe for concurrent use.
type SentUpdate[Out any] struct {
	raw    *RawUpdate
	decode func(history.Payload) (Out, error)
}

// ID is the id of the update.
func (s *SentUpdate[Out]) ID() string { return s.raw.updateID }

// Answer waits for the answer; see Update. It may be called again.
func (s *SentUpdate[Out]) Answer(ctx context.Context) (out Out, _ error) {
	p, err := s.raw.Answer(ctx)
	if err != nil {
		return out, err
	}
	if out, err = s.decode(p); err != nil {
		return out, fmt.Errorf("client: answer to update %s of %s: %w", s.raw.name, s.raw.id, err)
	}
	return out, nil
}

// RawUpdate is a SentUpdate whose answer is not decoded. It is safe for concurrent use.
type RawUpdate struct {
	c                  *Client
	id, name, updateID string
	waiter             *waiter
	sent               time.Time       // time at which the stream had stored it; zero: it was sent elsewhere
	owner              <-chan struct{} // closed when the owner of the partition changes after it was sent
}

// ID is the id of the update.
func (r *RawUpdate) ID() string { return r.updateID }

// SendUpdateRaw is SendUpdate for an update that is known by its name only.
func (c *Client) SendUpdateRaw(ctx context.Context, name, id string, p history.Payload, opts ...UpdateOption) (*RawUpdate, error) {
	return sendUpdate(ctx, c, message.OutInput{Instance: id, Kind: message.KindUpdate, Name: name, Payload: p}, name, opts)
}

// UpdateWithStartRaw is UpdateWithStart for an orchestration and an update that are known by their names only. It does not wait for the
// answer.
func (c *Client) UpdateWithStartRaw(
	ctx context.Context, orchestration, id string, in history.Payload, name string, p history.Payload, opts ...UpdateOption,
) (*RawUpdate, error) {
	return sendUpdate(ctx, c, message.OutInput{
		Instance: id, Kind: message.KindStart, Name: orchestration, Payload: in, Event: &message.OutEvent{Name: name, Payload: p, Update: true},
	}, name, opts)
}

// AttachUpdateRaw is AttachUpdate for an update that is known by its name only.
func (c *Client) AttachUpdateRaw(name, id, updateID string) *RawUpdate {
	return &RawUpdate{c: c, id: id, name: name, updateID: updateID, waiter: c.newWaiter()}
}

func sendUpdate(ctx context.Context, c *Client, in message.OutInput, name string, opts []UpdateOption) (*RawUpdate, error) {
	w := c.newWaiter()
	owner := c.owners.next(c.conn.PartitionOf(in.Instance)) // taken before the update is sent, because an owner that takes over after that may not push
	in.Reply = c.inbox.Subject(w.token)
	set := setBy(opts)
	if in.Kind == message.KindUpdate && (set.Version != "" || set.Attrs != "" || set.StartAt != "" || set.Timeout != 0) {
		return nil, fmt.Errorf("client: update %s of %s: %w", name, in.Instance, errStartsNone)
	}
	id := cmp.Or(set.ID, nuid.Next())
	if _, err := publish(ctx, c, &in, append(slices.Clip(opts), UpdateID(id))); err != nil {
		return nil, err
	}
	return &RawUpdate{c: c, id: in.Instance, name: name, updateID: id, waiter: w, sent: time.Now(), owner: owner}, nil
}

var errStartsNone = errors.New("the option is for a new instance, and Update starts none: see UpdateWithStart")

// setBy returns the fields that the options set.
func setBy(opts []UpdateOption) (in message.OutInput) {
	for _, o := range opts {
		o.apply(&in)
	}
	return in
}

// Answer returns the encoded answer: see Update. The owner pushes the answer, which is also requested, as Instance.Result requests the
// end.
func (r *RawUpdate) Answer(ctx context.Context) (history.Payload, error) {
	if err := pawl.ValidateID(r.id); err != nil {
		return history.Payload{}, fmt.Errorf("client: %w", err)
	}
	a := await{
		c: r.c, id: r.id, waiter: r.waiter, owner: r.owner, unknown: r.c.opts.OwnerTimeout,
		request: func(replyTo string) request.Request {
			return &request.Update{Instance: r.id, ReplyTo: replyTo, Name: r.name, ID: r.updateID}
		},
	}
	if !r.sent.IsZero() {
		a.unknown = -1
		a.delay = max(0, r.c.opts.RepeatInterval-time.Since(r.sent))
	}
	got, err := a.answer(ctx)
	switch {
	case err != nil:
		return history.Payload{}, err
	case got.Problem != nil:
		return history.Payload{}, about(r.id, problem(got.Problem))
	case got.Failure != nil:
		return history.Payload{}, &pawl.Failure{Failure: *got.Failure}
	}
	return got.Result, nil
}

// Rejected reports whether an error of Update is the answer of the instance, and not a failure to receive one.
func Rejected(err error) bool {
	_, ok := errors.AsType[*pawl.Failure](err)
	return ok
}
