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
