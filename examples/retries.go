package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// A failed activity is retried with growing backoffs, unless it reports that further attempts cannot succeed.
var (
	FetchReport = pawl.NewOrchestration[Fetch, string]("fetch-report")
	Download    = pawl.NewActivity[Fetch, string]("download")

	ErrNoSuchReport = pawl.NewError("no-such-report")
)

// Fetch names a report, and sets how its server will behave.
type Fetch struct {
	Report  string `json:"report"`  // an empty name is not found
	Outages uint32 `json:"outages"` // number of attempts during which the server is away
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
