package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// An activity that fails is tried again, after growing pauses, unless it reports that no
// further attempt would mend it.
var (
	FetchReport = pawl.NewOrchestration[Fetch, string]("fetch-report")
	Download    = pawl.NewActivity[Fetch, string]("download")

	ErrNoSuchReport = pawl.NewError("no-such-report")
)

// Fetch names a report, and how its server will behave.
type Fetch struct {
	Report  string `json:"report"`  // empty: there is no such report
	Outages uint32 `json:"outages"` // attempts that the server is away for
}

func fetchReport(ctx *pawl.Context, in Fetch) (string, error) {
	return Download.Call(ctx, in,
		pawl.Retry{Attempts: 4, Initial: time.Second, Unless: []*pawl.Error{ErrNoSuchReport}}, // after 1 s, 2 s, 4 s
		pawl.AttemptTimeout(30*time.Second),
		pawl.Within(5*time.Minute))
}

func download(ctx context.Context, in Fetch) (string, error) {
	switch {
	case in.Report == "":
		return "", fmt.Errorf("download: %w", ErrNoSuchReport)
	case pawl.Info(ctx).Attempt <= in.Outages:
		return "", errors.New("the server is away")
	}
	return fmt.Sprintf("%s, at attempt %d", in.Report, pawl.Info(ctx).Attempt), nil
}
