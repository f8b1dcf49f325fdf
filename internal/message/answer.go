package message

import (
	"encoding/json"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Statuses of an instance in addition to those of its record.
const (
	StatusPending = "pending" // waits at a limit for its first turn, or has only inputs
	StatusPurged  = "purged"  // answer to the purge that has removed the instance
)

// Problem is the reason why a request has failed.
type Problem struct {
	Code    string // one of the constants below
	Message string
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// WireFields encodes or decodes the fields.
func (p *Problem) WireFields(c *wire.Codec) { c.String(&p.Code); c.String(&p.Message) }

// Codes of problems.
const (
	ProblemNotFound   = "not-found"   // no such instance, limit or policy
	ProblemNotOwner   = "not-owner"   // the partition is being handed over: repeat the request
	ProblemBadRequest = "bad-request" // the request is malformed
	ProblemRefused    = "refused"     // the input or the policy cannot take effect; the message reports why
	ProblemInternal   = "internal"    // the owner failed; see its log
)

// Answer reports the end of an instance, its custom status, or the problem of the request.
type Answer struct {
	Instance  string
	Origin    history.Position
	Execution uint64
	Status    string           // completed, failed, cancelled; with a custom status also running; for a purge StatusPurged
	Result    history.Payload  // for a wait for the end
	Failure   *history.Failure // for a wait for the end
	Problem   *Problem         // if set, only Instance is set besides
	Custom    *CustomStatus    // the latest custom status; nil: none was ever set
}

// WireFields encodes or decodes the fields.
func (a *Answer) WireFields(c *wire.Codec) {
	c.String(&a.Instance)
	eventcodec.PositionFields(c, &a.Origin)
	c.Uint(&a.Execution)
	c.String(&a.Status)
	eventcodec.PayloadFields(c, &a.Result)
	wire.Optional(c, &a.Failure, eventcodec.FailureFields)
	wire.Optional(c, &a.Problem, func(c *wire.Codec, p *Problem) { p.WireFields(c) })
	wire.Optional(c, &a.Custom, func(c *wire.Codec, s *CustomStatus) { s.WireFields(c) })
}

// CustomStatus is the custom status of an instance.
type CustomStatus struct {
	Version uint64 // from 1, ascending over all executions
	Payload history.Payload
	Cleared bool // no status is set; an empty Payload alone may be one that does not fit into the reply
}

// WireFields encodes or decodes the fields.
func (s *CustomStatus) WireFields(c *wire.Codec) {
	c.Uint(&s.Version)
	eventcodec.PayloadFields(c, &s.Payload)
	c.Bool(&s.Cleared)
}

// Outcome returns the answer as JSON data for clients of any language.
func (a *Answer) Outcome() Outcome {
	o := Outcome{Instance: a.Instance, Status: a.Status, Execution: a.Execution}
	switch {
	case a.Problem != nil:
		o.Status, o.Error, o.Code = a.Problem.Code, a.Problem.Message, a.Problem.Code
	case a.Failure != nil:
		o.Error, o.Code = a.Failure.Message, a.Failure.Code
	case len(a.Result.Data) == 0:
	case a.Result.Type == history.TypeJSON && json.Valid(a.Result.Data):
		o.Result = a.Result.Data
	default:
		o.Result, _ = json.Marshal(a.Result.Data) //nolint:errchkjson // bytes always encode
	}
	return o
}

// UpdateAnswer is the answer to an update. On the reply subject of the update it is JSON, for clients of any language.
type UpdateAnswer struct {
	Instance string
	Update   string // name
	ID       string
	Result   history.Payload  // if Failure is nil
	Failure  *history.Failure // why it was rejected, or not executed
}

// Statuses of an update in JSON.
const (
	UpdateAnswered = "answered"
	UpdateRejected = "rejected"
	UpdateExpired  = "expired"
	UpdateEnded    = "ended"
)

// updateJSON is the JSON form of an UpdateAnswer.
type updateJSON struct {
	Instance string           `json:"instance"`
	Update   string           `json:"update"`
	ID       string           `json:"id"`
	Status   string           `json:"status"`
	Result   json.RawMessage  `json:"result,omitempty"` // as a base64 string, if the content type is not JSON
	Type     string           `json:"type,omitempty"`   // content type, if it is not JSON
	Error    *history.Failure `json:"error,omitempty"`
}

// Status returns answered, rejected, expired or ended.
func (a UpdateAnswer) Status() string {
	switch {
	case a.Failure == nil:
		return UpdateAnswered
	case a.Failure.Code == history.CodeExpired:
		return UpdateExpired
	case a.Failure.Code == history.CodeEnded:
		return UpdateEnded
	default:
		return UpdateRejected
	}
}

// MarshalJSON encodes the answer for clients of any language.
func (a UpdateAnswer) MarshalJSON() ([]byte, error) {
	out := updateJSON{Instance: a.Instance, Update: a.Update, ID: a.ID, Status: a.Status(), Error: a.Failure}
	switch p := a.Result; {
	case len(p.Data) == 0:
	case p.Type == history.TypeJSON && json.Valid(p.Data):
		out.Result = p.Data
	default:
		out.Type = p.Type
		out.Result, _ = json.Marshal(p.Data) //nolint:errchkjson // bytes always encode
	}
	return json.Marshal(out)
}

// UnmarshalJSON decodes the encoding of MarshalJSON.
func (a *UpdateAnswer) UnmarshalJSON(b []byte) error {
	var in updateJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*a = UpdateAnswer{Instance: in.Instance, Update: in.Update, ID: in.ID, Failure: in.Error}
	switch {
	case len(in.Result) == 0:
		return nil
	case in.Type == "":
		a.Result = history.Payload{Type: history.TypeJSON, Data: in.Result}
		return nil
	default:
		a.Result.Type = in.Type
		return json.Unmarshal(in.Result, &a.Result.Data)
	}
}
