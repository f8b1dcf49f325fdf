package lease

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/internal/redisx"
)

//go:embed report.lua
var reportLua string

// MaxReports is the maximum number of reports of one call of Leases.Report.
const MaxReports = 500

// Report records how activities of one execution ended, at most MaxReports of them. A report replaces an earlier one of the same
// activity, unless its ending is NeverStarted: that may be of a second delivery of an activity that did start. Nothing is written if the
// instance does not exist or the execution is no longer retained. Only the partition, instance and execution of ref are used.
func (l *Leases) Report(ref Ref, reports []Reported, done func(error)) {
	args := make([]any, 0, 1+3*len(reports))
	args = append(args, strconv.FormatUint(ref.Execution, 10))
	for _, r := range reports {
		text, err := json.Marshal(r.Report)
		if err != nil { // numbers and text always encode
			done(fmt.Errorf("lease: report: %w", err))
			return
		}
		once := "0"
		if r.Report.Ending == NeverStarted {
			once = "1"
		}
		args = append(args, strconv.FormatUint(r.Activity, 10), text, once)
	}
	p := l.space.Part(ref.Part)
	keys := []string{p.Instance(ref.Instance), p.Reports(ref.Instance, ref.Execution)}
	l.runner.Go(redisx.Call{Script: l.report, Keys: keys, Args: args}, func(_ any, err error) { done(err) })
}
