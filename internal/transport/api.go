package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A stream without a leader does not reply, and neither does a server whose leader has just failed. The timeouts bound how long a
// caller waits before its request can reach the next leader.
const (
	apiTimeout    = 2 * time.Second // timeout of a request to JetStream
	createTimeout = 4 * time.Second // timeout of a request on which the servers of the cluster must agree
	readAgain     = time.Second / 4 // interval at which an unanswered read is repeated: there may be a leader by then
	createAgain   = time.Second / 2 // the same for a create
	placeTimeout  = time.Second     // timeout of the first attempt to create a consumer, whose server may have failed
)

// messageGet is the body of a request for one stored message.
type messageGet struct {
	Seq     uint64 `json:"seq,omitempty"`          // the message with this sequence; with NextFor, the first one from here on
	NextFor string `json:"next_by_subj,omitempty"` // the next message with this subject
	LastFor string `json:"last_by_subj,omitempty"` // the last message with this subject
}

// stored contains the fields of a stored message that this package uses.
type stored struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// message gets one stored message from the stream's leader. A follower that lags would report a lost tail. Errors:
// jetstream.ErrMsgNotFound, jetstream.ErrStreamNotFound.
//
// It does not use Stream.GetMsg of the library, which sends its request once: a request that arrives while the stream has no leader is
// never answered.
func (c *streams) message(ctx context.Context, stream string, get messageGet) (stored, error) {
	var answer struct {
		Message stored `json:"message"`
	}
	err := c.api(ctx, "STREAM.MSG.GET."+stream, get, &answer)
	return answer.Message, err
}

// info requests the state of a stream from its leader.
func (c *streams) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	info := new(jetstream.StreamInfo)
	return info, c.api(ctx, "STREAM.INFO."+stream, struct{}{}, info)
}

// api makes one read-only request to JetStream.
func (c *streams) api(ctx context.Context, call string, request, answer any) error {
	if !c.Connected() { // otherwise it would wait for its timeout, or be sent after its caller has returned
		return ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	ctx, settle := c.whileAllowed(ctx, c.apiSubject(call))
	m, err := c.read(ctx, c.apiSubject(call), body)
	if err = settle(err); err != nil {
		return c.explain(err)
	}
	var failed struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("answer of JetStream: %w", err)
	}
	if failed.Error != nil {
		return apiError(failed.Error)
	}
	return json.Unmarshal(m.Data, answer)
}

// read sends a request, and repeats it at the interval readAgain until one is answered: a request that was sent while there was no
// leader is never answered.
func (c *streams) read(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	inbox, replies := c.nc.NewInbox(), make(chan *nats.Msg, apiTimeout/readAgain+1) // a channel of the library would take half a megabyte
	sub, err := c.nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	return repeated(ctx, readAgain, func(ctx context.Context) (*nats.Msg, error) {
		if err := c.nc.PublishRequest(subject, inbox, body); err != nil {
			return nil, err
		}
		select {
		case m := <-replies:
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, nats.ErrNoResponders
			}
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// repeated makes a request, and repeats it whenever it is not answered in time, until ctx ends. The time doubles with each attempt.
func repeated[T any](ctx context.Context, wait time.Duration, request func(context.Context) (T, error)) (T, error) {
	for ; ; wait *= 2 {
		once, cancel := context.WithTimeout(ctx, wait)
		v, err := request(once)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return v, err
		}
	}
}

func (c *streams) apiSubject(call string) string { return jetstream.DefaultAPIPrefix + call }

// apiError returns the sentinel for errors that callers distinguish, and otherwise e.
func apiError(e *jetstream.APIError) error {
	switch e.ErrorCode {
	case jetstream.JSErrCodeMessageNotFound:
		return jetstream.ErrMsgNotFound
	case jetstream.JSErrCodeStreamNotFound:
		return jetstream.ErrStreamNotFound
	case jetstream.JSErrCodeConsumerNotFound:
		return jetstream.ErrConsumerNotFound
	default:
		return e
	}
}
