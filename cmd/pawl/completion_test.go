package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/poll"
)

func TestCandidatesAreTheValuesThatCanFollow(t *testing.T) {
	for words, want := range map[string]string{
		"completion":                    "bash zsh fish",
		"bench":                         "hello chain",
		"bench hello --fsync":           "everysec always",
		"schedule create x --overlap":   "skip",
		"policy":                        "set apply get list delete",
		"policy set x --concurrency 10": "--rate",
	} {
		got := strings.Fields(must(t, append([]string{"complete", "--"}, strings.Fields(words)...)...))
		for w := range strings.FieldsSeq(want) {
			if !slices.Contains(got, w) {
				t.Errorf("%s: %q is missing in %q", words, w, got)
			}
		}
	}
	if out := must(t, "complete", "--", "completion", "bash"); strings.Contains(out, "zsh") {
		t.Errorf("a second shell: %q", out)
	}
}

// Each script completes "pawl completion b" and "pawl hist" in its shell.
func TestCompletionScriptsRunInTheirShells(t *testing.T) {
	bin := filepath.Dir(program(t))
	for shell, request := range map[string]string{
		"bash": `COMP_WORDS=(pawl completion b); COMP_CWORD=2; _pawl; echo "${COMPREPLY[@]}"; COMP_WORDS=(pawl hist); COMP_CWORD=1; _pawl; echo "${COMPREPLY[@]}"`,
		"zsh":  `words=(pawl completion b); CURRENT=3; _pawl; words=(pawl hist); CURRENT=2; _pawl`,
		"fish": `complete -C "pawl completion b"; complete -C "pawl hist"`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(shell, " is not installed")
			}
			script := completionScripts[shell]
			if shell == "zsh" { // without the completion system, which needs a terminal
				script = "compdef() { }; compadd() { shift; print -l -- $@ }\n" + script
			}
			cmd := exec.Command(path, "-c", script+request)
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			got := strings.Fields(string(out))
			if err != nil || !slices.Contains(got, "bash") || !slices.Contains(got, "history") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestVersionAndContextsAreShownAsJSON(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var v struct{ Version, Go string }
	if err := json.Unmarshal([]byte(must(t, "version", "--json")), &v); err != nil || v.Version == "" || v.Go == "" {
		t.Errorf("%v, %+v", err, v)
	}
	must(t, "context", "add", "prod", "--set", "nats=nats://u:secret@127.0.0.1:2")
	must(t, "context", "add", "dev", "--set", "namespace=shop") // in spite of the nats of the current context
	var lines []string
	for line := range strings.Lines(must(t, "context", "list", "--json")) {
		lines = append(lines, line)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], `"current":false,"name":"dev","settings":{"namespace":"shop"}`) || !strings.Contains(lines[1], `"current":true,"name":"prod"`) ||
		strings.Contains(lines[1], "secret") {
		t.Errorf("%q", lines)
	}
	code, _, errs := command(t, "context", "add", "x", "--nats", "nats://example:4222")
	if code != 2 || !strings.Contains(errs, "--set nats=nats://example:4222") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestBenchRejectsAFleetBeforeTheNumbers(t *testing.T) {
	code, _, errs := command(t, "bench", "limit", "--nats", "nats://127.0.0.1:1", "--instances", "50")
	if code != 2 || !strings.Contains(errs, "omit --nats") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestWarningsAreJSONWithTheFlag(t *testing.T) {
	nats := harness(t, fleets{})
	code, out, errs := command(t, "policy", "set", "charge-crad", "--concurrency", "1", "--json", "--nats", nats)
	var w struct{ Warning string }
	if err := json.Unmarshal([]byte(errs), &w); code != 0 || err != nil || !strings.Contains(w.Warning, "registers charge-crad") || !json.Valid([]byte(out)) {
		t.Errorf("code %d, %v: %s%s", code, err, out, errs)
	}
}

func TestIDWithDotsIsUsedByEveryCommand(t *testing.T) {
	const id = "shop.example.com..order-1"
	nats := harness(t, fleets{orchestrations: examples.Orchestrations(), activities: examples.Activities()})
	at := func(args ...string) string { return must(t, append(args, "--nats", nats)...) }
	at("start", "counter", id, "--input", "{}", "--wait-started")
	at("send", id, "add", "2")
	if out := at("list", "--where", "id = "+id); !strings.Contains(out, id) {
		t.Error(out)
	}
	at("cancel", id, "--reason", "done")
	poll.Until(t, time.Minute, "the instance has ended", func() bool { return strings.Contains(at("get", id), "cancelled") })
	if out := at("history", id); !strings.Contains(out, "add 2") {
		t.Error(out)
	}
	at("purge", id)
	if code, _, errs := command(t, "get", id, "--nats", nats); code != 1 || !strings.Contains(errs, id) {
		t.Errorf("code %d, %s", code, errs)
	}
}
