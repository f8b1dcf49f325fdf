package pawlfx

import (
	"fmt"
	"io"

	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/exported"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pawlcodec"
)

// Replay checks that the code of a program matches the histories in files that pawl export or pawl history --json wrote, and writes a line per
// file. It returns the code for os.Exit: 0 if the code matches all histories, otherwise 1. The options must contain the Orchestrations of the
// program, the dependencies of their constructors, and Payloads if payloads are sealed. They must not contain Orchestrator or Connections,
// because Replay requires neither NATS nor Redis.
func Replay(w io.Writer, files []string, opts ...fx.Option) int {
	type params struct {
		fx.In

		Bindings []pawl.OrchestrationBinding `group:"pawl.orchestrations"`
		Codec    *pawlcodec.Codec            `optional:"true"`
	}
	fit := false
	app := fx.New(fx.NopLogger, fx.Options(opts...), fx.Invoke(func(p params) error {
		bindings := builtin.Orchestrations(builtin.Instances{})
		for _, b := range p.Bindings {
			bindings = append(bindings, b)
		}
		code, err := author.NewRegistry(bindings...)
		if err == nil {
			fit, err = exported.ReplayFiles(w, code, (*sealing.Codec)(p.Codec), files)
		}
		return err
	}))
	if err := app.Err(); err != nil {
		_, _ = fmt.Fprintln(w, dig.RootCause(err))
		return 1
	}
	if !fit {
		return 1
	}
	return 0
}
