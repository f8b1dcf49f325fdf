// Package settings is the one place where Pawl's programs get their settings from:
// each is a flag and a PAWL_* variable, the flag wins, and what neither gives has a
// default that the help text shows. It also opens what the settings name: the log, the
// connections to NATS and Redis. Errors of those are one line, and say which server,
// where, and what was tried.
//
// A program declares a struct of the groups that it takes and calls Parse:
//
//	var cfg struct {
//		settings.Fleet
//		settings.Worker
//	}
//	if code, ok := settings.Parse(&cfg, "worker", "…", os.Args[1:], os.Stdout, os.Stderr); !ok {
//		os.Exit(code)
//	}
package settings
