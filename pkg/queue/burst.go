package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// burstSilence is after how long without a message or a word of the server a burst is
// over. What comes later is delivered again after the AckWait.
const burstSilence = time.Second

// Burst takes at most n tasks of those that wait in the queue at this moment, more than
// was asked for with Want, and gives them in the order of the queue. It is for whoever can
// deal with many at once without running them: each must be answered at once, by Nak if
// it is to be run. What has come is given also with an error.
func (p *Puller) Burst(ctx context.Context, n int) ([]*Delivery, error) {
	body, err := json.Marshal(struct {
		Batch  int  `json:"batch"`
		NoWait bool `json:"no_wait"`
	}{n, true})
	if err != nil {
		return nil, fmt.Errorf("queue: burst from %s: %w", p.queue, err)
	}
	inbox, messages := p.c.nc.NewInbox(), make(chan *nats.Msg, n+1)
	sub, err := p.c.nc.ChanSubscribe(inbox, messages)
	if err != nil {
		return nil, fmt.Errorf("queue: burst from %s: %w", p.queue, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := p.c.nc.PublishRequest(p.requests(), inbox, body); err != nil {
		return nil, fmt.Errorf("queue: burst from %s: %w", p.queue, err)
	}
	var all []*Delivery
	silence := time.NewTimer(burstSilence)
	defer silence.Stop()
	for range n {
		select {
		case m := <-messages:
			if m.Subject == inbox { // the server: there are no more
				return all, nil
			}
			silence.Reset(burstSilence)
			if d := p.open(m); d != nil {
				all = append(all, d)
			}
		case <-silence.C:
			return all, fmt.Errorf("queue: burst from %s: %w", p.queue, errSilence)
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
	return all, nil
}

// open reads a task; nil: it can not be read, and has been dealt with.
func (p *Puller) open(m *nats.Msg) *Delivery {
	d := &Delivery{reply: m.Reply, nc: p.c.nc}
	var err error
	d.Task, err = DecodeTask(m.Data)
	if err == nil && d.Task.Queue != p.queue {
		err = fmt.Errorf("%w: activity %s of %s was scheduled for queue %q", ErrForged, d.Task.Name, d.Task.Instance, d.Task.Queue)
	}
	if err != nil {
		p.refuse(d, err)
		return nil
	}
	return d
}

// requests is the subject of pull requests.
func (p *Puller) requests() string {
	return p.c.apiSubject("CONSUMER.MSG.NEXT." + p.c.tasks.Name + "." + queueToken(p.queue))
}
