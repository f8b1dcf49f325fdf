package replay_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/internal/scenario"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// A scenario file contains a program, and then inputs, each with the decisions that follow from it:
//
//	# title
//	code
//		left = activity left
//		...
//
//	start
//		2 ActivityScheduled left
//
// The operations of programs are in machine_test.go. The inputs are
//
//	observe, which completes polls
//	start [JSON] · completed ID JSON · failed ID TEXT · event NAME JSON · cancel REQUESTER REASON… · fire · advance DURATION
//	child-completed ID JSON · child-failed ID TEXT · continue, which begins the next execution · status, which shows it
//	full ACTION · room ACTION, which has a limit from then on ("test" is the instance) · granted ID · refused ID CODE
//
// A dropped input is shown as dropped. A second code section is a new build: the history so far is replayed with it, and continues. Every
// scenario is replayed from each of its prefixes. go test -run Scenario -update rewrites the decisions; review the difference.
func TestScenariosPlayAsRecorded(t *testing.T) { scenario.Run(t, "testdata/*.txt", 27, play) }

// play returns the text of a scenario with the decisions that were actually made.
func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	var d *replaytest.Driver
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(all); i++ {
		line := all[i]
		indented := strings.HasPrefix(line, "\t")
		switch words := strings.Fields(line); {
		case len(words) == 0, words[0] == "#":
			fmt.Fprintln(&out, line)
		case words[0] == "code":
			fmt.Fprintln(&out, line)
			first := i + 1
			for i+1 < len(all) && strings.HasPrefix(all[i+1], "\t") {
				i++
				fmt.Fprintln(&out, all[i])
			}
			code, rest := parse(all[first:i+1], 1)
			if len(rest) > 0 {
				t.Fatalf("code is indented badly: %q", rest)
			}
			body := func(x *replay.Code) (string, error) { return (&machine{x: x}).main(code) }
			if d == nil {
				d = drive(t, body)
			} else {
				d.Deploy(program(body))
			}
		case !indented:
			fmt.Fprintln(&out, line)
			if words[0] == "status" {
				p, version := d.X.Status()
				fmt.Fprintf(&out, "\tversion %d: %s\n", version, p.Data)
				continue
			}
			if _, unread := d.X.Continued(); words[0] == "continue" {
				for _, ev := range unread {
					fmt.Fprintf(&out, "\tcarries %s\n", show.Summary(ev))
				}
			}
			outcome, decisions := feed(t, d, words)
			if outcome.Dropped() {
				fmt.Fprintf(&out, "\t%s\n", outcome)
			}
			for _, made := range decisions {
				fmt.Fprintf(&out, "\t%d %s %s\n", made.Meta().ID, show.Kind(made), about(made))
			}
		}
	}
	d.CheckReplay()
	d.CheckRecord()
	return out.String()
}

// about returns the summary of an event, with the times of timers as the code set them.
func about(ev history.Event) string {
	set, ok := ev.(*history.TimerScheduled)
	if !ok {
		return show.Summary(ev)
	}
	text := "in " + (time.Duration(set.FireAt-set.At) * time.Millisecond).String()
	if set.RetainsSlotOf > 0 {
		text += fmt.Sprintf(", keeping the slot of %d", set.RetainsSlotOf)
	}
	return text
}

// feed applies the input of a line.
func feed(t *testing.T, d *replaytest.Driver, words []string) (replay.Outcome, []history.Event) {
	t.Helper()
	rest := func(n int) string { return strings.Join(words[min(n, len(words)):], " ") }
	id := func() uint64 {
		n, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var in history.Event
	switch words[0] {
	case "start":
		if len(words) == 1 {
			return replay.Applied, d.Start(history.Payload{})
		}
		return replay.Applied, d.Start(text(rest(1)))
	case "continue":
		return replay.Applied, d.Continue()
	case "child-completed":
		in = &history.ChildCompleted{Scheduled: id(), Effect: d.EffectOf(id()), Result: text(rest(2))}
	case "child-failed":
		in = &history.ChildFailed{Scheduled: id(), Effect: d.EffectOf(id()), Failure: history.Failure{Message: rest(2)}}
	case "completed":
		in = &history.ActivityCompleted{Scheduled: id(), Result: text(rest(2)), Worker: "w"}
	case "failed":
		in = &history.ActivityFailed{Scheduled: id(), Failure: history.Failure{Message: rest(2)}, Worker: "w"}
	case "event":
		in = &history.EventReceived{Name: words[1], Payload: text(rest(2))}
	case "cancel":
		in = &history.CancelRequested{By: words[1], Text: rest(2)}
	case "observe":
		return replay.Applied, d.Observe()
	case "fire":
		return replay.Applied, d.Fire()
	case "full", "room":
		d.Limit(words[1], words[0] == "room")
		return replay.Applied, nil
	case "granted":
		in = &history.Granted{Scheduled: id()}
	case "refused":
		in = &history.ActivityFailed{Scheduled: id(), Failure: history.Failure{Code: words[2], Message: words[2]}}
	case "advance":
		d.Advance(must(time.ParseDuration(words[1])))
		return replay.Applied, nil
	default:
		t.Fatalf("unknown input %q", words)
	}
	return d.Offer(in)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var errReturn = errors.New("return")
