// Package settings reads the settings of all of Pawl's programs. Each setting is a flag
// and a PAWL_* environment variable. The flag takes precedence, and the help text shows
// the default. The package also opens the log and the connections to NATS and Redis.
// Errors of connections are one line with the server, its address, and what was tried.
//
// A program declares a struct of the groups that it uses and calls Parse:
//
//	var cfg struct {
//		settings.Fleet
//		settings.Worker
//	}
//	if code, ok := settings.Parse(&cfg, "worker", "…", os.Args[1:], os.Stdout, os.Stderr); !ok {
//		os.Exit(code)
//	}
package settings
