package console

// shortcut is a keyboard shortcut.
type shortcut struct {
	Keys []string
	Text string
}

// listKeys lists the keyboard shortcuts. The script also opens the list over other pages.
func listKeys(*request) (view, error) {
	return view{template: "keys", title: "Keys", data: []shortcut{
		{[]string{"?"}, "open or close this list"},
		{[]string{"g", "h"}, "open Home; i Instances, b Batches, c Schedules, u Updates, s Stalled, l Limits, w Workers, v Versions, n the start form, f Faults"},
		{[]string{"/"}, "focus the filter"},
		{[]string{"↓", "↑", "Enter", "Tab", "Esc"}, "in the filter: choose, accept or close completions"},
		{[]string{"j", "k"}, "move to the next or previous row; Enter opens it"},
		{[]string{"x"}, "select the row"},
		{[]string{"r"}, "reload the page"},
		{[]string{"+", "-", "0", "[", "]"}, "zoom the timeline in or out, show all of it, move left or right"},
	}}, nil
}
