package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// What is cancelled: an instance with n activities, each of which runs until its context ends.
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

// Subjects, in core NATS, on which the worker talks to the client.
const (
	reportSubject     = "pawl-bench"
	goroutinesSubject = reportSubject + ".goroutines"
)

// holdReport is what a held activity publishes: that it has begun, or that its context has ended.
type holdReport struct {
	Instance string        `json:"instance"`
	At       int64         `json:"at"`               // Unix nanoseconds
	Reason   cancel.Reason `json:"reason,omitempty"` // of the end of its context; zero: it has begun
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
		return 0, fmt.Errorf("a context has ended without a reason: %w", context.Cause(ctx))
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

// serveGoroutines replies with the number of goroutines of this process. It ends with the connection.
func serveGoroutines(nc *nats.Conn) error {
	_, err := nc.Subscribe(goroutinesSubject, func(m *nats.Msg) {
		_ = m.Respond([]byte(strconv.Itoa(runtime.NumGoroutine()))) // the requester repeats its request
	})
	return err
}
