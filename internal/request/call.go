package request

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
)

// Call sends a request to the owner of a partition and decodes its reply into r. Errors: a *Problem of the owner; the errors of
// Conn.Request; transport.ErrMalformed or transport.ErrNewer for a reply that cannot be decoded.
func Call(ctx context.Context, conn *transport.Conn, partition int, q Request, r Reply) error {
	b, err := conn.Request(ctx, partition, AccessOf(q), encode(q))
	if err != nil {
		return err
	}
	return decodeReply(b, r)
}

func encode(q Request) []byte {
	op := q.operation()
	return wire.Encode(func(c *wire.Codec) {
		wire.Number(c, &op)
		c.Record(q.fields)
	})
}

func decode(what string, b []byte, fields func(*wire.Codec)) error {
	return transport.Decoded(what, wire.Decode(b, fields))
}

// decodeRequest decodes a request that was sent with a permission, and checks that the permission is sufficient.
func decodeRequest(b []byte, access transport.Access) (q Request, err error) {
	var op operation
	err = decode("request", b, func(c *wire.Codec) {
		wire.Number(c, &op)
		if construct := constructors[op]; construct != nil {
			q = construct()
			c.Record(q.fields)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case q == nil:
		return nil, fmt.Errorf("request %d is not known to this orchestrator", op)
	case AccessOf(q) == transport.AccessAdmin && access != transport.AccessAdmin:
		return nil, fmt.Errorf("%w: request %d with the permission %s", transport.ErrMalformed, op, access)
	}
	return q, nil
}

func encodeReply(r Reply, p *Problem) []byte {
	return wire.Encode(func(c *wire.Codec) {
		wire.Optional(c, &p, func(c *wire.Codec, p *Problem) { p.WireFields(c) })
		if p == nil {
			c.Record(r.fields)
		}
	})
}

func decodeReply(b []byte, r Reply) error {
	var p *Problem
	err := decode("reply", b, func(c *wire.Codec) {
		wire.Optional(c, &p, func(c *wire.Codec, p *Problem) { p.WireFields(c) })
		c.Record(r.fields)
	})
	if err == nil && p != nil {
		return p
	}
	return err
}

// Serve answers the requests to a partition until Stop, each on a goroutine of its own, at most 16 at a time; see
// Conn.ServeRequests. The reply to an error of fn that is not a *Problem is ProblemInternal, and after Stop
// ProblemNotOwner. Serve clears the reply subject of a request if no answer may be published to it.
func Serve(conn *transport.Conn, partition int, fn func(context.Context, Request) (Reply, error)) (*transport.Subscription, error) {
	return conn.ServeRequests(partition, func(ctx context.Context, access transport.Access, b []byte) ([]byte, error) {
		q, err := decodeRequest(b, access)
		if err != nil {
			return encodeReply(nil, &Problem{Code: ProblemBadRequest, Message: err.Error()}), err
		}
		var to *string
		switch q := q.(type) {
		case *Await:
			to = &q.ReplyTo
		case *Status:
			to = &q.ReplyTo
		case *Update:
			to = &q.ReplyTo
		}
		if to != nil && !conn.RepliesTo(*to) {
			*to = ""
		}
		r, err := fn(ctx, q)
		if err != nil && ctx.Err() != nil { // interrupted by Stop
			err = &Problem{Code: ProblemNotOwner, Message: fmt.Sprintf("the orchestrator is releasing partition %d; request again", partition)}
		}
		if err != nil {
			return encodeReply(nil, problemOf(err)), nil
		}
		body, limit := encodeReply(r, nil), conn.NATS().MaxPayload()
		if int64(len(body)) > limit {
			return encodeReply(nil, &Problem{Code: ProblemInternal,
				Message: fmt.Sprintf("the reply has %d bytes, the NATS server accepts %d: request less at a time", len(body), limit)}), nil
		}
		return body, nil
	})
}

func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return &Problem{Code: ProblemInternal, Message: err.Error()}
}

// Publish sends an answer to a reply subject. Callers may ignore the error, because the client repeats its request.
func Publish(conn *transport.Conn, to string, a Answer) error {
	return conn.Answer(to, wire.Encode(a.WireFields))
}

// OnAnswers opens an inbox and calls fn for each answer that arrives there, in order, with the token of its subject.
func OnAnswers(conn *transport.Conn, fn func(token string, a Answer)) (*transport.Inbox, error) {
	return conn.OnAnswers(func(token string, b []byte) error {
		a, err := decodeAnswer(b)
		if err != nil {
			return err
		}
		fn(token, a)
		return nil
	})
}
