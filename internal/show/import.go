package show

import (
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// ReadImport reads the latest execution of an export, and reports whether it was running. The error is history.ErrNoImport.
func ReadImport(export []byte) (m *history.Import, running bool, _ error) {
	instance, executions, err := ReadExport(export)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", history.ErrNoImport, err)
	}
	if len(executions) == 0 {
		return nil, false, fmt.Errorf("%w: it has no history", history.ErrNoImport)
	}
	var described struct {
		Instance struct {
			Attributes json.RawMessage `json:"attributes"`
		} `json:"instance"`
	}
	if json.Unmarshal(export, &described) != nil { // the lines of pawl history --json contain no description
		described.Instance.Attributes = nil
	}
	attributes, err := history.ParseAttributes(string(described.Instance.Attributes))
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", history.ErrNoImport, err)
	}
	m = &history.Import{Instance: instance, Attributes: attributes.String()}
	events := executions[len(executions)-1]
	for _, e := range events {
		if err := pawlcodec.CheckPortable(e); err != nil {
			return nil, false, fmt.Errorf("%w: %w", history.ErrNoImport, err)
		}
		b, err := history.Encode(e)
		if err != nil {
			return nil, false, err
		}
		m.Events = append(m.Events, b)
	}
	state, _ := history.Check(events) // Import.Payload reports the error
	return m, state.End == nil, nil
}
