package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A stream without a leader answers nothing, and neither does a server whose leader has just died: what bounds a request
// is what its caller waits for in vain before it asks the next leader.
const (
	apiTimeout    = 2 * time.Second // of a request to JetStream
	createTimeout = 4 * time.Second // of one that the cluster has to agree on
)

// messageGet is the body of a request for one stored message.
type messageGet struct {
	Seq     uint64 `json:"seq,omitempty"`          // this one; with NextFor, the first from here on
	NextFor string `json:"next_by_subj,omitempty"` // of this subject
	LastFor string `json:"last_by_subj,omitempty"` // the last one of this subject
}

// stored is what we want to know of a stored message.
type stored struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// message gets one stored message from the stream's leader, and from nobody else,
// for the answer of a follower that is behind would be taken for a lost tail. The
// error is jetstream.ErrMsgNotFound or jetstream.ErrStreamNotFound, if it is one of those.
func (c *Conn) message(ctx context.Context, stream string, get messageGet) (stored, error) {
	var answer struct {
		Message stored `json:"message"`
	}
	err := c.api(ctx, "STREAM.MSG.GET."+stream, get, &answer)
	return answer.Message, err
}

// api makes one request to JetStream.
func (c *Conn) api(ctx context.Context, what string, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	m, err := c.nc.RequestWithContext(ctx, c.apiSubject(what), body)
	if err != nil {
		return explain(err)
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

func (c *Conn) apiSubject(what string) string { return jetstream.DefaultAPIPrefix + what }

// apiError makes the sentinels of what callers tell apart.
func apiError(e *jetstream.APIError) error {
	switch e.ErrorCode {
	case jetstream.JSErrCodeMessageNotFound:
		return jetstream.ErrMsgNotFound
	case jetstream.JSErrCodeStreamNotFound:
		return jetstream.ErrStreamNotFound
	default:
		return e
	}
}
