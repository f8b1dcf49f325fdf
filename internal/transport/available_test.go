package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// closing closes a connection at the end of the test.
func closing(t *testing.T, nc *nats.Conn) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	t.Cleanup(func() { nc.Close(); <-closed })
	return nc
}

func TestOpenWaitsForAServerThatStartsLater(t *testing.T) {
	s := newHarness(t)
	url := s.srv.ClientURL()
	s.stop()
	nc, err := Dial(url)
	ok(t, err)
	closing(t, nc)
	opened := make(chan error, 1)
	go func() {
		c, err := Open(soon(t), nc, Options{Partitions: 4})
		if err == nil {
			c.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	s.start()
	ok(t, get(t, opened, "the Open"))
}

func TestOpenAndJoinEndWithTheirContext(t *testing.T) {
	nc, err := Dial("nats://me:secret@127.0.0.1:1")
	ok(t, err)
	closing(t, nc)
	for name, open := range map[string]func(context.Context) error{
		"open": func(ctx context.Context) error { _, err := Open(ctx, nc, Options{}); return err },
		"join": func(ctx context.Context) error { _, err := Join(ctx, nc, Options{}); return err },
	} {
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := open(ctx)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrDisconnected) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRejectedCredentialsFailImmediately(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, Username: "u", Password: "right", NoSigs: true, NoLog: true})
	ok(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	url := strings.Replace(srv.ClientURL(), "//", "//u:wrong@", 1)
	eventually(t, "the rejection", func() bool {
		nc, err := Dial(url)
		if err == nil { // the server has not answered in time, and Dial would try again
			closed := make(chan struct{})
			nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
			nc.Close()
			<-closed
			return false
		}
		if !strings.Contains(strings.ToLower(err.Error()), "authorization") || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%v", err)
		}
		return true
	})
}

func TestRejectedCredentialsFailAWaitingOpen(t *testing.T) {
	s := newHarness(t)
	url := strings.Replace(s.srv.ClientURL(), "//", "//u:wrong@", 1)
	s.stop()
	nc, err := Dial(url)
	ok(t, err)
	closing(t, nc)
	opened := make(chan error, 1)
	go func() { _, err := Open(soon(t), nc, Options{}); opened <- err }()
	s.password = "right"
	s.start()
	if err := get(t, opened, "the Open"); err == nil || !strings.Contains(strings.ToLower(err.Error()), "authorization") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestUnavailabilityIsRecognizedByItsErrors(t *testing.T) {
	for _, err := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, ErrTimeout, ErrNoStream, fmt.Errorf("x: %w", ErrDisconnected), context.DeadlineExceeded,
		&jetstream.APIError{Code: 503, ErrorCode: 10008}, &jetstream.APIError{Code: 500, ErrorCode: 10049},
	} {
		if !Unavailable(err) {
			t.Errorf("%v is not recognized", err)
		}
	}
	for _, err := range []error{
		nil, ErrNoNamespace, &MismatchError{}, nats.ErrAuthorization, ErrStreamFull, ErrTooLarge, ErrClosed, context.Canceled,
		jetstream.ErrJetStreamNotEnabledForAccount, &jetstream.APIError{Code: 400, ErrorCode: 10052},
	} {
		if Unavailable(err) {
			t.Errorf("%v is recognized", err)
		}
	}
}
