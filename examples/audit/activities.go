package audit

import (
	"context"
	"errors"

	"github.com/pawlrun/pawl"
)

// Orchestrations returns the bindings of an orchestrator that runs audits.
func Orchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{Audit.Do(Orchestrate)}
}

// Activities returns the bindings of a worker that runs audits.
func Activities() []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		ListPackages.Do(listPackages),
		InspectPackage.Do(inspectPackage),
		WritePart.Do(writePart),
		WriteReport.Do(writeReport),
		SweepParts.Do(sweepParts),
	}
}

func listPackages(_ context.Context, in ListRequest) (Page, error) {
	p, err := ListPage(in.Dir, in.After, MaxPageEntries)
	if errors.Is(err, ErrNoDirectory) {
		err = pawl.Permanent(err)
	}
	return p, err
}

func inspectPackage(_ context.Context, in InspectRequest) (Summary, error) {
	return Inspect(in.Dir, in.Package), nil
}

func writePart(_ context.Context, in PartRequest) (pawl.None, error) {
	return pawl.None{}, in.Spool.WritePart(in.Index, in.Part)
}

func writeReport(_ context.Context, in ReportRequest) (string, error) {
	return in.Spool.WriteReport(in.Dir, in.Parts, in.Totals)
}

func sweepParts(_ context.Context, in Spool) (pawl.None, error) {
	return pawl.None{}, in.Sweep()
}
