package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// DefaultRedis is the default address of Redis. A program with another default passes the kong variable redis to Commands.
const DefaultRedis = "redis://127.0.0.1:6379"

// Parse fills the settings, a pointer to a struct, from args and the environment. If ok is false, the program must exit with
// the code: it has printed the help to out, or an error to errw, with --json as a JSON object.
func Parse(settings any, name, description string, args []string, out, errw io.Writer) (code int, ok bool) {
	_, code, ok = Commands(settings, name, description, args, out, errw)
	return code, ok
}

// Commands is Parse for a program with commands. The returned context runs the selected one.
func Commands(settings any, name, description string, args []string, out, errw io.Writer, opts ...kong.Option) (_ *kong.Context, code int, ok bool) {
	exited := -1
	k, err := kong.New(settings, append([]kong.Option{
		kong.Name(name),
		kong.Description(description),
		kong.Vars{"redis": DefaultRedis},
		kong.Writers(out, errw),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	}, opts...)...)
	if err != nil {
		_, _ = fmt.Fprintf(errw, "%s: %v\n", name, err)
		return nil, ExitUsage, false
	}
	ctx, err := k.Parse(args)
	if exited >= 0 {
		return nil, exited, false
	}
	if err != nil {
		command := name
		if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context.Selected() != nil {
			command = wrong.Context.Selected().FullPath()
		}
		reason := strings.TrimPrefix(err.Error(), strings.TrimPrefix(command, name+" ")+": ")
		reason = strings.TrimPrefix(reason, "pawl: ") // the prefix of errors of package pawl
		problem := fmt.Sprintf("%s; see %s --help", reason, command)
		if slices.Contains(args, "--json") {
			if err := json.NewEncoder(errw).Encode(map[string]string{"error": problem}); err == nil {
				return nil, ExitUsage, false
			}
		}
		_, _ = fmt.Fprintf(errw, "%s: %s\n", name, problem)
		return nil, ExitUsage, false
	}
	return ctx, ExitDone, true
}
