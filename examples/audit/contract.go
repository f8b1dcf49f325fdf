package audit

import "github.com/pawlrun/pawl"

// What both fleets and the clients share. All activities are on one queue, for a
// worker that has one of them has them all.
var (
	Audit = pawl.NewOrchestration[Request, Result]("audit")

	ListPackages   = pawl.NewActivity[ListRequest, Page]("list-packages", pawl.Queue("audit"))
	InspectPackage = pawl.NewActivity[InspectRequest, Summary]("inspect-package", pawl.Queue("audit"))
	WritePart      = pawl.NewActivity[PartRequest, pawl.None]("write-part", pawl.Queue("audit"))
	WriteReport    = pawl.NewActivity[ReportRequest, string]("write-report", pawl.Queue("audit"))
	SweepParts     = pawl.NewActivity[Spool, pawl.None]("sweep-parts", pawl.Queue("audit"))
)

// Errors of an audit.
var (
	ErrNoDirectory     = pawl.NewError("audit.no-directory")      // it is missing, no directory, or cannot be read
	ErrNoPackages      = pawl.NewError("audit.no-packages")       // the directory has no Go packages
	ErrTooManyPackages = pawl.NewError("audit.too-many-packages") // more than MaxPackages
)

// Request is the input of Audit. The paths are those of the workers' machines.
type Request struct {
	Dir      string `json:"dir"`
	Out      string `json:"out"`      // directory of the report, made if it is missing
	Parallel int    `json:"parallel"` // packages inspected at the same time; 0: 64
}

// Result is what Audit ends with.
type Result struct {
	Totals Totals `json:"totals"`
	Report string `json:"report"` // the file
}

// ListRequest asks for one page.
type ListRequest struct {
	Dir   string `json:"dir"`
	After string `json:"after,omitempty"`
}

// InspectRequest asks for one package's summary.
type InspectRequest struct {
	Dir     string `json:"dir"`
	Package string `json:"package"`
}

// PartRequest asks for a part to be kept.
type PartRequest struct {
	Spool Spool `json:"spool"`
	Index int   `json:"index"`
	Part  Part  `json:"part"`
}

// ReportRequest asks for the report to be put together.
type ReportRequest struct {
	Spool  Spool  `json:"spool"`
	Dir    string `json:"dir"`
	Parts  int    `json:"parts"`
	Totals Totals `json:"totals"`
}
