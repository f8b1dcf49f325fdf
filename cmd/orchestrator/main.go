// Command orchestrator runs orchestrations. All orchestrators of a namespace share its partitions.
package main

import (
	"os"

	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/settings"
)

func main() {
	var o fleet.Orchestrator
	code, ok := settings.Parse(&o, "orchestrator", "Run Pawl orchestrations.", os.Args[1:], os.Stdout, os.Stderr)
	if ok {
		code = o.Run(os.Stderr)
	}
	os.Exit(code)
}
