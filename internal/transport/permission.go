package transport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrPermission matches every *PermissionError.
var ErrPermission = errors.New("queue: permission missing")

// PermissionError is the error of a publish or a subscription that the NATS server has rejected. The server reports it asynchronously
// and sends no reply; this package returns it as the error of the call that it concerns.
type PermissionError struct {
	Operation string // publish or subscribe
	Subject   string
	Inbox     bool // the subject is an inbox, where replies are received
}

// Error returns the missing permission.
func (e *PermissionError) Error() string {
	text := fmt.Sprintf("queue: the NATS user has no permission to %s to %q", e.Operation, e.Subject)
	if e.Inbox {
		text += ", where replies are received: the inbox prefix must be that of the user's role (nats.CustomInboxPrefix, --nats-inbox-prefix)"
	}
	return text
}

// Is reports whether target is ErrPermission.
func (e *PermissionError) Is(target error) bool { return target == ErrPermission }

// violationEvery is the interval at which rejections are read from the connection while a call waits for a reply.
const violationEvery = 50 * time.Millisecond

var violation = regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]+)"`)

// violations reads the rejections of a connection, of which the library keeps only the last one. A rejection that is followed by another
// one within 50 ms is missed; the call that it concerns ends by its timeout. It must be used by one goroutine.
type violations struct {
	nc   *nats.Conn
	last error // compared by identity: each rejection is a separate error
}

func newViolations(nc *nats.Conn) *violations {
	v := &violations{nc: nc}
	_ = v.next() // discard an earlier one
	return v
}

// next returns the latest rejection since the last call, or nil.
func (v *violations) next() *PermissionError {
	err := v.nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) || err == v.last { //nolint:errorlint // identity decides whether it is the same rejection
		return nil
	}
	v.last = err
	m := violation.FindStringSubmatch(err.Error())
	switch {
	case m == nil:
		return nil
	case m[1] == "Publish":
		return &PermissionError{Operation: "publish", Subject: m[2]}
	default:
		return &PermissionError{Operation: "subscribe", Subject: m[2], Inbox: strings.HasPrefix(m[2], inboxPrefix(v.nc))}
	}
}

// inboxPrefix returns the prefix of the inboxes of a connection.
func inboxPrefix(nc *nats.Conn) string {
	if p := nc.Opts.InboxPrefix; p != "" {
		return p + "."
	}
	return nats.InboxPrefix
}

// whileAllowed is the function whileAllowed for the connection of the link.
func (c *link) whileAllowed(ctx context.Context, prefix string) (context.Context, func(error) error) {
	return whileAllowed(ctx, c.nc, prefix)
}

// RequestAllowed makes a request. It ends with a *PermissionError if the server rejects the request or its inbox.
func RequestAllowed(ctx context.Context, nc *nats.Conn, subject string) (*nats.Msg, error) {
	ctx, settle := whileAllowed(ctx, nc, subject)
	m, err := nc.RequestWithContext(ctx, subject, nil)
	return m, settle(err)
}

// whileAllowed returns a context that ends, with a *PermissionError as its cause, when the server rejects the inbox or a publish to a
// subject with the prefix, because no reply arrives in that case. The returned function must be called with the error of the operation; it
// returns that cause instead, if there is one.
func whileAllowed(ctx context.Context, nc *nats.Conn, prefix string) (context.Context, func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	seen := newViolations(nc)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(violationEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if v := seen.next(); v != nil && (v.Inbox || v.Operation == "publish" && strings.HasPrefix(v.Subject, prefix)) {
				cancel(v)
				return
			}
		}
	})
	return ctx, func(err error) error {
		cancel(nil)
		wg.Wait()
		if v, ok := errors.AsType[*PermissionError](context.Cause(ctx)); ok && err != nil {
			return v
		}
		return err
	}
}
