package request

import (
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Update requests the answer to an update. Reply: Answered, without an answer while the update is open or unknown; in that case the answer is
// published to ReplyTo as soon as there is one.
type Update struct {
	Instance string
	ReplyTo  string // empty: no answer is published
	Name, ID string
}

func (*Update) operation() operation { return opUpdate }
func (q *Update) fields(c *wire.Codec) {
	c.String(&q.Instance)
	c.String(&q.ReplyTo)
	c.String(&q.Name)
	c.String(&q.ID)
}

// Query requests an answer from the state of an instance. Reply: QueryAnswer.
type Query struct {
	Instance string
	Name     string
	Payload  history.Payload
}

func (*Query) operation() operation { return opQuery }
func (q *Query) fields(c *wire.Codec) {
	c.String(&q.Instance)
	c.String(&q.Name)
	eventcodec.PayloadFields(c, &q.Payload)
}

// QueryAnswer is the reply to Query.
type QueryAnswer struct {
	Result    history.Payload
	Failure   *history.Failure // returned by the handler, or nil
	Execution uint64
	Events    uint64 // length of the history on which the answer is based
}

func (r *QueryAnswer) fields(c *wire.Codec) {
	eventcodec.PayloadFields(c, &r.Result)
	wire.Optional(c, &r.Failure, eventcodec.FailureFields)
	c.Uint(&r.Execution)
	c.Uint(&r.Events)
}

// AnswerOf converts the answer to an update to an Answer.
func AnswerOf(a message.UpdateAnswer) Answer {
	return Answer{Instance: a.Instance, Status: a.Status(), Result: a.Result, Failure: a.Failure}
}

// PublishUpdate sends the answer to an update to a reply subject, in JSON. Callers may ignore the error, because the client repeats its request.
func PublishUpdate(conn *transport.Conn, to string, a message.UpdateAnswer) error {
	b, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("answer to update %s of %s: %w", a.Update, a.Instance, err)
	}
	return conn.Answer(to, b)
}

// decodeAnswer decodes an answer. Answers to updates are JSON, all others have the wire format.
func decodeAnswer(b []byte) (a Answer, err error) {
	if len(b) > 0 && b[0] == '{' {
		var u message.UpdateAnswer
		if err := json.Unmarshal(b, &u); err != nil {
			return a, fmt.Errorf("%w: answer to an update: %w", transport.ErrMalformed, err)
		}
		return AnswerOf(u), nil
	}
	err = decode("answer", b, a.WireFields)
	return a, err
}

// OpenUpdate is an update that an instance has not answered.
type OpenUpdate struct {
	Name, ID, By string
	At, Deadline int64           // Unix milliseconds; Deadline 0: none
	Input        history.Payload // empty if it is large
}

func (u *OpenUpdate) fields(c *wire.Codec) {
	c.String(&u.Name)
	c.String(&u.ID)
	c.String(&u.By)
	c.Int(&u.At)
	c.Int(&u.Deadline)
	eventcodec.PayloadFields(c, &u.Input)
}
