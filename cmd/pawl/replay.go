package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlfx"
)

type replayCmd struct {
	Files  []string `arg:"" name:"file" type:"existingfile" help:"Files that \"pawl export\" or \"pawl history --json\" wrote."`
	Binary string   `placeholder:"COMMAND" help:"Orchestrator whose code is checked, such as './orchestrator'. It is run with --replay FILE. Default: the examples of \"pawl dev\"."`
	JSON   bool     `name:"json" help:"Write one JSON object per file."`
}

// Help is shown with the flags.
func (c *replayCmd) Help() string {
	return "Neither NATS nor Redis is required. The exit code is 1 if the code does not match a history: the instance would stall on an orchestrator with this code."
}

// Run replays the files, one after the other.
func (c *replayCmd) Run(ctx context.Context, s streams) error {
	failed := settings.ExitDone
	for _, file := range c.Files {
		code, text, err := c.replay(ctx, file)
		if err != nil {
			return err
		}
		failed = max(failed, code)
		text = strings.TrimSpace(strings.TrimPrefix(text, file+": "))
		if c.JSON {
			err = writeJSON(s.out, map[string]any{"file": file, "fits": code == 0, "text": text})
		} else {
			_, err = fmt.Fprintf(s.out, "%s: %s\n", file, text)
		}
		if err != nil {
			return err
		}
	}
	return settings.Exit(failed)
}

// replay replays a file with the code of the binary.
func (c *replayCmd) replay(ctx context.Context, file string) (code int, text string, err error) {
	var out bytes.Buffer
	words := strings.Fields(c.Binary)
	if len(words) == 0 {
		code = pawlfx.Replay(&out, []string{file}, pawlfx.Orchestrations(examples.Orchestrations))
		return code, out.String(), nil
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], "--replay", file)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if e, ended := errors.AsType[*exec.ExitError](err); ended && e.ExitCode() == settings.ExitFailed {
		return e.ExitCode(), out.String(), nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("%s --replay %s: %w: %s", c.Binary, file, err, bytes.TrimSpace(out.Bytes()))
	}
	return 0, out.String(), nil
}
