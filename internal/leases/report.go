package leases

import (
	_ "embed"
	"strconv"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/lease"
)

//go:embed report.lua
var reportLua string

// MaxReports is the maximum number of reports of one call of Scripts.Report.
const MaxReports = 500

// Reported is a report about one activity of an execution.
type Reported struct {
	Activity uint64 // id of the history event that scheduled it
	Report   lease.Report
}

// Report records how activities of one execution ended, at most MaxReports of them. A report replaces an earlier one of the same
// activity, unless its ending is NeverStarted: that may be of a second delivery of an activity that did start. Nothing is written if the
// instance does not exist or the execution is no longer retained. Only the partition, instance and execution of ref are used.
func (l *Scripts) Report(ref Ref, reports []Reported, done func(error)) {
	args := make([]any, 0, 1+3*len(reports))
	args = append(args, strconv.FormatUint(ref.Execution, 10))
	for _, r := range reports {
		once := "0"
		if r.Report.Ending == lease.NeverStarted {
			once = "1"
		}
		args = append(args, strconv.FormatUint(r.Activity, 10), record.EncodeReport(r.Report), once)
	}
	p := l.space.Part(ref.Part)
	keys := []string{p.Instance(ref.Instance), p.Reports(ref.Instance, ref.Execution)}
	l.runner.Go(redisx.Call{Script: l.report, Keys: keys, Args: args}, func(_ any, err error) { done(err) })
}
