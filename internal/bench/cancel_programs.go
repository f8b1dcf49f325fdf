package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// The instance to cancel: it has n activities, each of which runs until its context ends.
var (
	holdAll = pawl.NewOrchestration[int, int]("bench-hold-all")
	hold    = pawl.NewActivity[pawl.None, int]("bench-hold")
)

func holdN(ctx *pawl.Context, n int) (int, error) {
	held := make([]*pawl.Future[int], n)
	for i := range held {
		held[i] = hold.Start(ctx, pawl.None{})
	}
	_, err := pawl.All(ctx, held...)
	return n, err
}

// Subjects, in core NATS, on which the members report to the client.
const (
	reportSubject     = "pawl-bench"
	goroutinesSubject = reportSubject + ".goroutines"
)

// holdReport is a message of a held activity: it has begun, or its context has ended.
type holdReport struct {
	Instance string        `json:"instance"`
	At       int64         `json:"at"`               // Unix nanoseconds
	Reason   cancel.Reason `json:"reason,omitempty"` // why its context ended; zero when the activity begins
}

// holder runs the held activities of a worker.
type holder struct{ nc *nats.Conn }

func (h holder) hold(ctx context.Context, _ pawl.None) (int, error) {
	if err := h.publish(ctx, 0, time.Now()); err != nil {
		return 0, err
	}
	<-ctx.Done()
	ended := time.Now()
	cause, ok := errors.AsType[*pawl.Cancelled](context.Cause(ctx))
	if !ok {
		return 0, fmt.Errorf("context ended without a reason: %w", context.Cause(ctx))
	}
	return 0, errors.Join(cause, h.publish(ctx, cause.Reason, ended))
}

func (h holder) publish(ctx context.Context, reason cancel.Reason, at time.Time) error {
	b, err := json.Marshal(holdReport{Instance: pawl.Info(ctx).Instance, Reason: reason, At: at.UnixNano()})
	if err != nil {
		return err
	}
	return h.nc.Publish(reportSubject, b)
}

// serve answers requests on a subject with JSON, until the connection is closed.
func serve(nc *nats.Conn, subject string, answer func(request string) any) error {
	_, err := nc.Subscribe(subject, func(m *nats.Msg) {
		if b, err := json.Marshal(answer(string(m.Data))); err == nil {
			_ = m.Respond(b) // without an answer, the request times out
		}
	})
	return err
}

// request sends a request that a member serves, and decodes the answer.
func request[T any](ctx context.Context, d *driver, subject, body string) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	m, err := d.nc.RequestWithContext(ctx, subject, []byte(body))
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		err = fmt.Errorf("request %s %s: %w", subject, body, err)
	}
	return answer, err
}
