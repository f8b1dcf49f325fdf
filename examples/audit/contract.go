package audit

import "github.com/pawlrun/pawl"

// The handles that both fleets and the clients share. All activities are on one queue, because a worker registers either all of them or
// none.
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
	ErrNoDirectory     = pawl.NewError("audit.no-directory")      // it is missing, is not a directory, or cannot be read
	ErrNoPackages      = pawl.NewError("audit.no-packages")       // the directory has no Go packages
	ErrTooManyPackages = pawl.NewError("audit.too-many-packages") // the directory has more than MaxPackages packages
)

// Request is the input of Audit. Its paths are on the workers' machines.
type Request struct {
	Dir      string `json:"dir"`
	Out      string `json:"out"`      // directory of the report, created if it is missing
	Parallel int    `json:"parallel"` // maximum number of packages inspected at a time; 0 means 64
}

// Result is the result of Audit.
type Result struct {
	Totals Totals `json:"totals"`
	Report string `json:"report"` // path of the report
}

// ListRequest requests one page.
type ListRequest struct {
	Dir   string `json:"dir"`
	After string `json:"after,omitempty"`
}

// InspectRequest requests the summary of one package.
type InspectRequest struct {
	Dir     string `json:"dir"`
	Package string `json:"package"`
}

// PartRequest requests that a part is stored.
type PartRequest struct {
	Spool Spool `json:"spool"`
	Index int   `json:"index"`
	Part  Part  `json:"part"`
}

// ReportRequest requests that the report is assembled.
type ReportRequest struct {
	Spool  Spool  `json:"spool"`
	Dir    string `json:"dir"`
	Parts  int    `json:"parts"`
	Totals Totals `json:"totals"`
}
