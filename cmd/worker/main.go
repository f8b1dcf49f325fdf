// Command worker runs activities. All workers of a namespace share its tasks.
package main

import (
	"os"

	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/settings"
)

func main() {
	var w fleet.Worker
	code, ok := settings.Parse(&w, "worker", "Run Pawl activities.", os.Args[1:], os.Stdout, os.Stderr)
	if ok {
		code = w.Run(os.Stderr)
	}
	os.Exit(code)
}
