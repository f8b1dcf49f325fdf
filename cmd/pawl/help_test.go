package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/settings"
)

func TestHelpFitsANarrowTerminal(t *testing.T) {
	const columns = 40
	shown := func(width int, args ...string) string {
		var out bytes.Buffer
		_, code, _ := settings.Commands(&commands{}, "pawl", description, append(args, "--help"), &out, &out, defaults(), help(width))
		if code != settings.ExitDone {
			t.Fatalf("%q: code %d", args, code)
		}
		return out.String()
	}
	text := func(help string) string { return strings.Join(strings.Fields(help), "") }
	for _, args := range [][]string{{}, {"start"}, {"policy", "set"}, {"schedule", "create"}, {"bench"}} {
		wide, narrow := shown(0, args...), shown(columns, args...)
		if text(narrow) != text(wide) {
			t.Errorf("%q: the narrow help has another text:\n%s", args, narrow)
		}
		for line := range strings.Lines(narrow) {
			if len(strings.TrimRight(line, "\n")) > columns {
				t.Errorf("%q: more than %d columns: %q", args, columns, line)
			}
		}
	}
}

func TestHelpGroupsTheCommandsIn80Columns(t *testing.T) {
	var out bytes.Buffer
	if _, code, _ := settings.Commands(&commands{}, "pawl", description, []string{"--help"}, &out, &out, defaults(), help(80)); code != settings.ExitDone {
		t.Fatalf("code %d", code)
	}
	at := -1
	for _, group := range []string{"\nRun Pawl\n", "\nInstances\n", "\nBatches and schedules\n", "\nLimits\n", "\nFleet\n", "\nThis program\n"} {
		i := strings.Index(out.String(), group)
		if i <= at {
			t.Errorf("%q is missing or misplaced:\n%s", group, out.String())
		}
		at = i
	}
	if strings.Contains(out.String(), "\nCommands:") {
		t.Errorf("some commands have no group:\n%s", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("more than 80 columns: %q", line)
		}
	}
}
