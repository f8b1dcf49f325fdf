package show

import (
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/sealing"
)

// ReadImport reads the latest execution of an export, and reports whether it was running. The error is imported.ErrNoImport.
func ReadImport(export []byte) (m *imported.Instance, running bool, _ error) {
	instance, executions, err := ReadExport(export)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", imported.ErrNoImport, err)
	}
	if len(executions) == 0 {
		return nil, false, fmt.Errorf("%w: it has no history", imported.ErrNoImport)
	}
	var described struct {
		Instance struct {
			Attributes json.RawMessage `json:"attributes"`
		} `json:"instance"`
	}
	if json.Unmarshal(export, &described) != nil { // the lines of pawl history --json contain no description
		described.Instance.Attributes = nil
	}
	attributes, err := attribute.Parse(string(described.Instance.Attributes))
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", imported.ErrNoImport, err)
	}
	m = &imported.Instance{Instance: instance, Attributes: attributes.String()}
	events := executions[len(executions)-1]
	for _, e := range events {
		if err := sealing.CheckPortable(e); err != nil {
			return nil, false, fmt.Errorf("%w: %w", imported.ErrNoImport, err)
		}
		b, err := eventcodec.Encode(e)
		if err != nil {
			return nil, false, err
		}
		m.Events = append(m.Events, b)
	}
	state, _ := fold.Check(events) // Import.Payload reports the error
	return m, state.End == nil, nil
}
