package console

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// Time in the task queue is drawn apart from the run, events of one name share a lane, and outstanding work from an earlier
// page begins at the left edge. Updates last until they are answered, and pauses until they end.
func TestTimelineSplitsWaitsFromRuns(t *testing.T) {
	at := func(id uint64, ms int64, e history.Event) client.Entry {
		e.Meta().ID, e.Meta().At = id, ms
		return client.Entry{Event: e}
	}
	got := timelineOf([]client.Entry{
		at(101, 1000, &history.ActivityScheduled{Name: "charge", Effect: "e"}),
		at(102, 1200, &history.EventReceived{Name: "paid", By: "ada"}),
		at(103, 2000, &history.ActivityCompleted{Scheduled: 101, Worker: "w-1", Claims: 1, RanMS: 400}),
		at(104, 2100, &history.EventReceived{Name: "paid", By: "bob"}),
		at(105, 2100, &history.UpdateReceived{Name: "offer", By: "ada"}),
		at(106, 2200, &history.UpdateAnswered{Update: 105, Failure: &history.Failure{Message: "too little"}}),
		at(107, 2300, &history.UpdateReceived{Name: "ask", By: "ada"}),
		at(108, 2400, &history.Paused{By: "ops", Text: "stocktaking"}),
		at(109, 2600, &history.Resumed{By: "ops"}),
	}, client.Description{
		AwaitedEvents: []string{"paid"}, AwaitedUpdates: []string{"offer"},
		Activities: []client.Activity{{Event: 7, Name: "ship", Worker: "w-2", Scheduled: time.UnixMilli(500)}},
	}, 3000)
	var lines []string
	for _, l := range got.Lanes {
		line := l.Kind + " " + l.Name + ": " + l.Note
		for _, b := range l.Bars {
			line += " [" + b.Class + " " + b.X + "+" + b.W + "]"
		}
		lines = append(lines, line+strings.Repeat(" |", len(l.Marks)))
	}
	const want = `activity ship: 2.5s, runs on w-2 [run open 0.0+1000.0]
activity charge: 400ms on w-1, after 600ms in the queue [queue 0.0+300.0] [ok 300.0+200.0]
event paid: 2 times, the latest by bob; 400ms, waited for [wait open 800.0+200.0] | |
update offer: 100ms, rejected: too little; 400ms, waited for [bad 550.0+50.0] [wait open 800.0+200.0]
update ask: 700ms, by ada, not answered [wait open 650.0+350.0]
pause paused: 200ms, resumed by ops [wait 700.0+100.0]`
	if text := strings.Join(lines, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// The members of a JSON value are shown in their order, and the text of the tree is the JSON text.
func TestPayloadIsShownAsATree(t *testing.T) {
	var text func(n *node) string
	text = func(n *node) string {
		s := n.Key + n.Text
		for _, k := range n.Kids {
			s += " " + text(k)
		}
		return strings.TrimSpace(s + " " + n.Close)
	}
	for in, want := range map[string]string{
		`{"b":[1,{"<":null}],"a":{},"n":9007199254740993}`: `{ "b": [ 1, { "<": null } ], "a": {}, "n": 9007199254740993 }`,
		`7`: "", `{}`: "", `{"a":`: "", strings.Repeat("[", 100) + strings.Repeat("]", 100): "",
	} {
		got := ""
		if n := treeOf([]byte(in)); n != nil {
			got = text(n)
		}
		if got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
