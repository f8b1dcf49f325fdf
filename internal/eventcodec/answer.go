package eventcodec

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// UpdateAnswer is the answer to an update as the store keeps it: either a result or a failure.
type UpdateAnswer struct {
	At      int64 // Unix ms
	Result  history.Payload
	Failure *history.Failure
}

// Encode returns the bytes of the answer.
func (a UpdateAnswer) Encode() ([]byte, error) {
	return Encode(&history.UpdateAnswered{Head: history.Head{At: a.At}, Result: a.Result, Failure: a.Failure})
}

// DecodeUpdateAnswer reads the output of Encode. The error matches ErrCorrupt or ErrNewerVersion.
func DecodeUpdateAnswer(b []byte) (UpdateAnswer, error) {
	e, err := Decode(0, b)
	if err != nil {
		return UpdateAnswer{}, err
	}
	a, ok := e.(*history.UpdateAnswered)
	if !ok {
		return UpdateAnswer{}, fmt.Errorf("an answer of kind %d: %w", e.Kind(), ErrCorrupt)
	}
	return UpdateAnswer{At: a.At, Result: a.Result, Failure: a.Failure}, nil
}
