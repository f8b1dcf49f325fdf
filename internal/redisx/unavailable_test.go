package redisx_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
)

type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestUnavailabilityIsRecognizedByItsErrors(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, err := range []error{
		dial, fmt.Errorf("redis: commit: %w", dial), io.EOF, context.DeadlineExceeded, redis.ErrPoolTimeout, &net.DNSError{IsNotFound: true},
		reply("LOADING Redis is loading the dataset in memory"), reply("CLUSTERDOWN Hash slot not served"), reply("READONLY You can't write"),
		reply("OOM command not allowed when used memory > 'maxmemory'."), errors.New("redis: cluster has no nodes"),
	} {
		if !redisx.Unavailable(err) {
			t.Errorf("%v is not recognized", err)
		}
	}
	for _, err := range []error{
		nil, redis.Nil, context.Canceled, redisx.ErrClosed, redis.ErrClosed, reply("WRONGPASS invalid username-password pair"), reply("NOAUTH Authentication required."),
		reply("NOPERM no permissions"), reply("ERR user_script:1: oops"), &redisx.EvictionError{}, errors.New("namespace has 8 partitions"),
		&net.OpError{Op: "remote error", Err: x509.UnknownAuthorityError{}},
	} {
		if redisx.Unavailable(err) {
			t.Errorf("%v is taken for an outage", err)
		}
	}
}
