package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Task requests that a worker run one activity. It is only an invitation: the claim of the lease decides whether the activity runs. So a
// task may be delivered twice, or late, or be lost, and has no message id.
//
// A task may be forged. Its effect id covers everything on which a worker acts, and the lease has the effect id of the scheduled activity.
// So a task whose content does not match its effect id, or that was delivered by another queue, is dropped when it is read (ErrForged),
// and the claim of any other task is rejected unless exactly that content was scheduled. The effect id does not cover Headers and
// ScheduledAt, which only appear in traces and interceptors, and MaxClaims: with a forged MaxClaims an activity whose workers die may be
// claimed more often than its owner allows, until the owner reconciles its lease.
type Task struct {
	Instance    string
	Origin      history.Position
	Execution   uint64
	Activity    uint64 // event id of the ActivityScheduled
	Effect      string // effect id; see effectid.Activity
	Name        string // name of the activity
	Queue       string
	Attempt     uint32 // attempt under the author's Retry, from 1
	Payload     history.Payload
	ScheduledAt int64           // Unix milliseconds
	MaxClaims   uint32          // maximum number of claims; 0: unlimited
	CallKey     string          // the same for all attempts of a call; empty: the effect id
	Headers     history.Headers // headers of the instance, sent as headers of the message
}

func (t *Task) fields(c *wire.Codec) {
	c.String(&t.Instance)
	eventcodec.PositionFields(c, &t.Origin)
	c.Uint(&t.Execution)
	c.Uint(&t.Activity)
	c.String(&t.Effect)
	c.String(&t.Name)
	c.String(&t.Queue)
	wire.Number(c, &t.Attempt)
	eventcodec.PayloadFields(c, &t.Payload)
	c.Int(&t.ScheduledAt)
	wire.Number(c, &t.MaxClaims)
	c.String(&t.CallKey)
}

// Encode returns the body of the message.
func (t Task) Encode() []byte { return wire.Encode(t.fields) }

// ContentID returns the effect id of the activity that the task describes.
func (t *Task) ContentID() string {
	return effectid.Activity(effectid.Identity{Instance: t.Instance, Origin: t.Origin, Execution: t.Execution}, &history.ActivityScheduled{
		Head: history.Head{ID: t.Activity}, Name: t.Name, Queue: t.Queue, Payload: t.Payload, Attempt: t.Attempt, First: t.CallKey,
	})
}

// DecodeTask decodes the output of Encode. The error matches ErrNewer, ErrMalformed or ErrForged.
func DecodeTask(b []byte) (Task, error) {
	var t Task
	if err := decode("task", b, t.fields); err != nil {
		return Task{}, err
	}
	if CheckInstance(t.Instance) != nil || t.Execution == 0 || t.Activity == 0 || t.Effect == "" || t.Name == "" {
		return Task{}, fmt.Errorf("%w: task with missing fields (instance %q, execution %d, activity %d, effect %q, name %q)",
			ErrMalformed, t.Instance, t.Execution, t.Activity, t.Effect, t.Name)
	}
	if id := t.ContentID(); id != t.Effect {
		return Task{}, fmt.Errorf("%w: activity %s of %s has effect id %q, its content has %q", ErrForged, t.Name, t.Instance, t.Effect, id)
	}
	return t, nil
}

// PublishTask publishes a task to its queue. It does not wait: done is called exactly once, from any goroutine (possibly this one, before
// PublishTask returns), with nil when the stream has acknowledged the task, or with ErrTimeout, ErrDisconnected, ErrBusy, ErrNoStream,
// ErrBadName or the server's error. done must not block.
//
// The error need not be handled: reconciliation publishes a task again if no worker claims it.
func (c *taskStream) PublishTask(t Task, done func(error)) {
	if err := checkQueue(t.Queue); err != nil {
		c.count.failed.Add(1)
		done(err)
		return
	}
	c.toTasks.publish(c.subj.task(t.Queue), taskHeader(t.Headers), t.Encode(), func(seq uint64, err error) {
		if err != nil {
			c.count.failed.Add(1)
			if errors.Is(err, ErrNoStream) {
				c.streams.mendSoon(c.streams.tasks)
			}
		} else {
			c.count.tasks.Add(1)
			c.published(seq)
		}
		c.observe("publish task", err)
		done(err)
	})
}

// OldestTask returns when the oldest task of the queue was published, by the server's clock; ok is false if the queue is empty.
func (c *taskStream) OldestTask(ctx context.Context, queue string) (at time.Time, ok bool, err error) {
	if err := checkQueue(queue); err != nil {
		return time.Time{}, false, err
	}
	m, err := c.streams.message(ctx, c.streams.tasks.Name, messageGet{Seq: 1, NextFor: c.subj.task(queue)})
	c.observe("find oldest task", err)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return time.Time{}, false, nil
	case err != nil:
		return time.Time{}, false, fmt.Errorf("queue: oldest task of %s: %w", queue, err)
	}
	return m.Time, true, nil
}

// Backlog returns the number of tasks of each queue in the stream, which no worker has claimed. Queues without tasks are missing.
func (c *Conn) Backlog(ctx context.Context) (map[string]uint64, error) {
	info := new(jetstream.StreamInfo)
	err := c.api(ctx, "STREAM.INFO."+c.tasks.Name, struct {
		Filter string `json:"subjects_filter"`
	}{c.subj.taskAll()}, info)
	c.observe("count tasks", err)
	if err != nil {
		return nil, fmt.Errorf("queue: count tasks: %w", err)
	}
	prefix := strings.TrimSuffix(c.subj.taskAll(), "*")
	out := make(map[string]uint64, len(info.State.Subjects))
	for subject, n := range info.State.Subjects {
		out[strings.ReplaceAll(strings.TrimPrefix(subject, prefix), "=", ".")] = n // see queueToken
	}
	return out, nil
}
