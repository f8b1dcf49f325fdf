package console

// shortcut are keys and what they do.
type shortcut struct {
	Keys []string
	Text string
}

// listKeys lists the keys of the script. It opens the same list over a page.
func listKeys(*request) (view, error) {
	return view{template: "keys", title: "Keys", data: []shortcut{
		{[]string{"?"}, "opens and closes this list"},
		{[]string{"g", "h"}, "opens Home; i Instances, b Batches, c Schedules, u Updates, s Stalled, l Limits, w Workers, v Versions, n the form of a start, f Faults"},
		{[]string{"/"}, "moves to the filter"},
		{[]string{"↓", "↑", "Enter", "Tab", "Esc"}, "in the filter: choose, take or close the completions"},
		{[]string{"j", "k"}, "moves to the next and the previous row; Enter opens it"},
		{[]string{"x"}, "selects the row"},
		{[]string{"r"}, "reads the page again"},
		{[]string{"+", "-", "0", "[", "]"}, "zooms the timeline in and out, shows all of it, moves left and right"},
	}}, nil
}
