package model

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is a mistake of the owner: a change of its source, and the worlds in which the search must find it.
type mutant struct {
	name   string
	file   string // relative to the root of the module
	old    string
	wrong  string // the replacement; MUTANT reports whether this mistake is enabled
	setups []Setup
	begins []string // steps of their stories
}

// mutants are compiled into one binary of this package, from changed copies of the sources; the sources themselves have no switch.
// All of its owners read two inputs at a time.
func mutants() []mutant {
	asleep := []Setup{
		setup("sweep", Faults{Resends: 1}, "a", "b", "start", "c").with(prompt),
		setup("race", Faults{Resends: 1, Dues: 1}, "start", "a", "b").with(prompt),
		setup("race", Faults{Resends: 1, Dues: 1}, "a", "start", "b").with(prompt),
		setup("race", Faults{Dues: 2}, "start", "a").with(prompt).with(func(s *Setup) { s.Bare = true }),
	}
	room := func(program string, f Faults, ids ...string) []Setup {
		return []Setup{setup(program, f, ids...).with(prompt).with(parkLimited)}
	}
	begun, second := begun(), second()
	// A late doorbell causes an instance to be loaded that is not in memory and has no unread inputs.
	late := slices.Concat(begun, []string{
		"a worker claims event 2", "event 2 is done", "the schedule names x", "reconcile x", "read inbox x", "the answer", "run turn x", "commit x",
		"publish ystart", "read input 2", "ingest of 2", "run turn y", "commit y", "a doorbell of x", "load x",
	})
	polls := []Setup{setup("sweep", Faults{}, "start").with(ends), setup("sweep", Faults{}, "start", "e1", "e2", "e3").with(ends)}
	return []mutant{
		{
			"a running instance is purged", "internal/core/purge.go",
			"	case in.status().Ended():\n		r.purge(in, p, in.unread[0].ID)", "	case in.status().Ended() || p.Force && MUTANT:\n		r.purge(in, p, in.unread[0].ID)",
			[]Setup{setup("stop", Faults{}, "start", "kill")}, nil,
		},
		{
			"an instance is purged before its messages are sent", "internal/core/purge.go",
			"	return len(in.outbox) == 0 && r.owner", "	return (len(in.outbox) == 0 || MUTANT) && r.owner",
			[]Setup{setup("report", Faults{}, "start", "go").with(retire)},
			slices.Concat(begun, second, []string{"run turn x", "commit x", "a worker claims event 2", "event 2 is done", "a doorbell", "run turn x", "commit x"}),
		},
		{
			"a poll is left to a turn that nothing triggers", "internal/turn/turn.go",
			"func (r *run) observe(left []core.Unread) {\n", "func (r *run) observe(left []core.Unread) {\n	if MUTANT && len(r.given.Inputs) > 0 {\n		return\n	}\n", polls, nil,
		},
		{
			"a poll is complete when the turn ends, although inputs are left", "internal/turn/turn.go",
			"	if r.given.More || slices", "	if !MUTANT && r.given.More || !MUTANT && slices", polls, nil,
		},
		{
			"a timer fires before the inputs that were accepted before it was due", "internal/core/horizon.go",
			"	case at <= s.horizon.reached:\n", "	case at <= s.horizon.reached || MUTANT:\n		s.horizon.reached = max(s.horizon.reached, at)\n",
			[]Setup{setup("alarm", Faults{Ticks: 1}, "start", "go")}, begun,
		},
		{
			"a missed input is lost when the next request begins", "internal/core/owner.go",
			"	if p.showsInbox() {", "	if p.showsInbox() || p.busy() && MUTANT {", asleep, nil,
		},
		{
			"a read of the inbox counts as complete although an input was missed meanwhile", "internal/core/owner.go",
			"		in.needsInboxRead = in.pending.stale && (", "		in.needsInboxRead = in.pending.stale && !MUTANT && (", room("race", Faults{Dues: 1, Resends: 1}, "start", "ystart", "a"),
			late,
		},
		{
			"a poll is complete although an input was missed while the inbox was read", "internal/core/owner.go",
			" || in.missed())", " || in.missed() && !MUTANT)", []Setup{setup("sweep", Faults{Dues: 1}, "start", "e1").with(ends)},
			slices.Concat(begun, []string{"a worker claims event 2", "event 2 is done", "the schedule names x", "reconcile x", "read inbox x"}, second),
		},
		{
			"the inputs of a repeated ingest are not read if a request is outstanding", "internal/core/arrivals.go",
			"		case got == nil:\n			in.noteUnread(", "		case MUTANT && (got == nil || got.Repeat):\n			in.needsInboxRead = true\n		case got == nil:\n			in.noteUnread(", asleep, nil,
		},
		{
			"inputs that arrive during a reconciliation are not read", "internal/core/owner.go",
			"		in.needsInboxRead = in.needsInboxRead || in.pending.stale || int(saw) > len(in.unread)", "		in.needsInboxRead = in.needsInboxRead || (in.pending.stale || int(saw) > len(in.unread)) && !MUTANT", asleep, nil,
		},
		{
			"inputs that arrive while early inputs are deferred are not read", "internal/core/stall.go",
			"	in.pending.inputs = nil\n	switch {\n	case came:", "	in.pending.inputs = nil\n	switch {\n	case came && !MUTANT:", asleep, nil,
		},
		{
			"an input that arrived in an empty inbox while a request was outstanding is lost", "internal/core/arrivals.go",
			"	case in.phase.busy() && result.Unread == 1:\n		in.pending", "	case in.phase.busy() && result.Unread == 1 && MUTANT:\n	case in.phase.busy() && result.Unread == 1:\n		in.pending", room("race", Faults{Dues: 1}, "start", "ystart", "a"),
			late,
		},
		{
			"an empty doorbell is lost if a request is outstanding", "internal/core/arrivals.go",
			"		case len(b.Element) == 0 ||", "		case len(b.Element) == 0 && in.phase.busy() && MUTANT:\n		case len(b.Element) == 0 ||", []Setup{setup("both", Faults{Dues: 1}, "start", "ystart").with(prompt).with(func(s *Setup) { s.Parked, s.Bare = 1, true })},
			late,
		},
		{
			"an operator request takes effect again when the instance reaches it", "internal/core/operator.go",
			"in.rec != nil && !u.start() && follows(in.rec.Control, u.position())", "in.rec != nil && !u.start() && follows(in.rec.Control, u.position()) && !MUTANT", []Setup{setup("both", Faults{}, "start", "rewind3").with(ends)}, begun,
		},
		{
			"a resumption schedules an activity again that has a result", "internal/core/operator.go",
			"		if p.Stop {", "		if p.Stop && !MUTANT {", []Setup{setup("both", Faults{}, "start", "hold", "resume").with(ends)},
			slices.Concat(begun, []string{"a worker claims event 2"}, second, []string{"event 2 is done", "commit x"}),
		},
		{
			"a rewind reruns an activity whose result is unread", "internal/core/operator.go",
			"func(u Unread) bool { return u.ends(e) })", "func(u Unread) bool { return u.ends(e) && !MUTANT })", []Setup{setup("both", Faults{}, "start", "rewind3").with(ends)},
			slices.Concat(begun, []string{"a worker claims event 2"}, second, []string{"event 2 is done"}),
		},
		{
			"a rewind does not list the results that it relies on", "internal/core/operator.go",
			"		if i >= 0 {", "		if i >= 0 && !MUTANT {", []Setup{setup("both", Faults{Rollbacks: 1}, "start", "rewind3").with(ends)},
			slices.Concat(begun, second, []string{"a worker claims event 2", "(what a restart", "event 2 is done", "read history x", "ROLLBACK"}),
		},
	}
}

// atLimits are the mistakes of owners at limits, which walks find.
func atLimits() []mutant {
	at := func(f Faults, programs ...string) []Setup {
		return []Setup{behindLimits(oneSlot(), f, programs...)}
	}
	entered, waits, done := entered("slot"), waits(), done()
	// An instance is admitted, and its turn is lost in a crash after it has entered the next limit. The ticket leaves that limit, because no history has it; then
	// the turn is decided again and must wait there. A late notice of its first entry must not apply to its second.
	lateNotice := []string{
		"publish startx", "read input 1", "ingest", "the reply is lost: call limit behind", "run turn x", "commit x",
		"publish starty", "read input 2", "ingest", "run turn y", "call limit another", "commit y",
		passes, passes, "the schedule", "call limit behind", "reconcile x", "call limit another", "run turn x", "call limit another", "the owner dies", "commit x",
		"a worker claims event 2 of y", "event 2 is done", "a doorbell of y", "load y", "the answer: load y", "run turn y", "call limit another", "commit y",
		"arrives, and once more later: pass notices", "load x", "the answer: load x", "reconcile x", "release tickets",
		"publish startz", "read input 3", "ingest", "run turn z", "call limit another", "commit z", passes, passes, passes, "the schedule",
		"load x", "the answer: load x", "call limit behind", "reconcile x", "call limit another", "run turn x", "call limit another", "commit x", "pass notices",
	}
	return []mutant{
		{
			"a cancelled activity leaves its limit before the commit", "internal/core/admission.go",
			"	a.leaveLimits(in, t, ended)\n", "	if MUTANT {\n		a.leaveLimits(in, t, allTickets)\n	}\n	a.leaveLimits(in, t, ended)\n",
			[]Setup{at(Faults{}, "one")[0].with(cancelled)}, nil,
		},
		{
			"a lost notice is never repeated", "internal/core/limit_visits.go", "len(got.Stale) > 0 {", "len(got.Stale) > 0 && !MUTANT {",
			at(Faults{Fails: 1}, "one", "one"), slices.Concat(entered, waits, done, []string{"run turn x", "call limit slot", "lost: pass notices"}),
		},
		{
			"a grant takes effect twice", "internal/core/limit_notices.go", "		if k.Waiting {", "		if k.Waiting || MUTANT {",
			at(Faults{Echoes: 1}, "one", "one"), slices.Concat(entered, waits, done, []string{"run turn x", "call limit slot"}),
		},
		{"a grant takes effect twice", "internal/replay/apply.go", "ok && !x.waits(g.Scheduled) {", "ok && !x.waits(g.Scheduled) && !MUTANT {", nil, nil}, // two more defences
		{"a grant takes effect twice", "internal/turn/turn.go", "		return !r.Fold.Waiting(e.Scheduled)\n", "		return !r.Fold.Waiting(e.Scheduled) && !MUTANT\n", nil, nil},
		{
			"a notice about an unknown ticket is ignored", "internal/core/limit_notices.go",
			"	in.notices = nil\n	l :=", "	in.notices = nil\n	if MUTANT {\n		notices = nil\n	}\n	l :=", at(Faults{Echoes: 1}, "one"), nil,
		},
		{
			"a ticket is released as orphaned without a reconciliation", "internal/core/limit_notices.go",
			"	l := &record.Recon", "	if MUTANT {\n		n.releaseOrphans(notices)\n		notices = nil\n	}\n	l := &record.Recon",
			at(Faults{Pauses: 1, Ticks: 2}, "chain"),
			slices.Concat(entered, []string{
				"a worker claims event 2 of x", "the owner is replaced", "event 2 is done", "a doorbell of x", "load x", "the answer: load x", "run turn x", "call limit slot",
				"time passes nev", "the schedule", "sweep", "find unwanted",
			}),
		},
		{
			"a notice is applied to another entry than its own", "internal/core/limit_notices.go",
			"	return w.At > since && since != 0", "	return w.At > since && since != 0 || MUTANT", at(Faults{Resends: 1, Crashes: 1, Echoes: 1}, "behind", "other", "other"), lateNotice,
		},
		{
			"the record retains the slot of a waiter", "internal/core/record.go",
			"	for s := range t.Runnable {\n		if s.Limit == nil", "	for _, k := range t.Fold.Tickets() {\n		if MUTANT && k.Limit.Retain {\n			kept = append(kept, k.ID)\n		}\n	}\n	for s := range t.Runnable {\n		if s.Limit == nil",
			at(Faults{Fails: 1}, "kept", "kept"), slices.Concat(entered, waits, done, []string{"run turn x", "call limit slot", "lost: pass notices"}),
		},
		{
			"the record retains a slot after the end of the call", "internal/core/admission.go",
			"		if k.Limit.Retain {\n			t.released", "		if k.Limit.Retain && !MUTANT {\n			t.released", at(Faults{Fails: 1}, "kept"), slices.Concat(entered, done, []string{"run turn x", "lost: call limit slot", "commit x"}),
		},
		{
			"no owner repeats its request to a limit", "internal/core/admission.go", "in.state.TicketLen() == 0 || in.limitAt > now {", "in.state.TicketLen() == 0 || in.limitAt > now || MUTANT {",
			at(Faults{LimitRollbacks: 1}, "one", "one"), nil,
		},
	}
}

// control enables no mistake: the binary must find nothing.
const control = "control"

// searchMutant searches for the enabled mistake.
func searchMutant(name string) int {
	all := slices.Concat(mutants(), atLimits())
	most := 6_000
	if name == control {
		most = 250
		for _, w := range worlds() {
			all = append(all, mutant{name: w.name, setups: []Setup{w.setup}})
		}
	}
	for _, m := range all {
		for i := range m.setups {
			if m.name != name && name != control {
				continue
			}
			if found := m.setups[i].counterexample(m.begins, most); found != "" {
				fmt.Fprintln(os.Stderr, m.name, found)
				return 0
			}
		}
	}
	return 1
}

func TestSearchFindsACounterexampleForEveryMistakeOfTheOwner(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary, names := compileMutants(t, root, dir)
	for _, name := range append(names, control) {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), binary)
			cmd.Env = append(os.Environ(), "PAWL_MUTANT="+name)
			out, err := cmd.CombinedOutput()
			if name == control {
				if err == nil {
					t.Fatalf("it is found without a mistake: %s", out)
				}
				return
			}
			if err != nil {
				t.Fatalf("no counterexample: %v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// compileMutants builds this package with all mistakes.
func compileMutants(t *testing.T, root, dir string) (binary string, names []string) {
	t.Helper()
	changed := map[string]string{}
	replace := func(file, old, wrong string) {
		text, ok := changed[file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if strings.Count(text, old) != 1 {
			t.Fatalf("%s has %d times %q", file, strings.Count(text, old), old)
		}
		changed[file] = strings.Replace(text, old, wrong, 1)
	}
	replace("internal/record/record.go", "	UnreadBatch     = 256 ", "	UnreadBatch     = 2 ")
	for _, m := range slices.Concat(mutants(), atLimits()) {
		mutant := fmt.Sprintf("mistake.Mutant(%q)", m.name)
		replace(m.file, m.old, strings.ReplaceAll(m.wrong, "MUTANT", mutant))
		names = append(names, m.name)
	}
	changed["internal/record/mutant.go"] = "package record\n\nimport \"os\"\n\nvar mutant = os.Getenv(\"PAWL_MUTANT\")\n\nfunc Mutant(name string) bool { return mutant == name }\n"
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		if !strings.HasPrefix(file, "internal/record/") {
			text = strings.Replace(text, "import (\n", "import (\n	mistake \"github.com/pawlrun/pawl/internal/record\"\n", 1)
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "mutants.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", file, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary, slices.Compact(names)
}
