package model

// Both runs two activities side by side.
func Both(p *Past, input string) {
	if input == "start" {
		p.Do("A")
		p.Do("Z")
	}
}

// Race does what depends on which input came first, under the same event id.
func Race(p *Past, input string) {
	switch {
	case input == "start":
		p.Do("A")
	case input == "go" && !p.Did("A"):
		p.Do("early")
	case input == "A" && !p.Took("go"):
		p.Do("late")
	}
}

// Deadline is a select between an activity and a timer; the loser is cancelled.
func Deadline(p *Past, input string) {
	switch input {
	case "start":
		p.Do("A")
		p.After(2)
	case "A", "timer":
		p.End()
	}
}

// Window runs an activity until a timer fires, and takes events meanwhile.
func Window(p *Past, input string) {
	switch input {
	case "start":
		p.Do("A")
		p.After(2)
	case "timer":
		p.End()
	}
}

// Alarm takes events until a timer fires.
func Alarm(p *Past, input string) {
	switch input {
	case "start":
		p.After(2)
	case "timer":
		p.End()
	}
}

// Churn schedules and cancels in one turn.
func Churn(p *Past, input string) {
	if input == "start" {
		p.Do("A")
		p.Off(p.Do("B"))
	}
}

// Stop runs two activities until it is cancelled.
func Stop(p *Past, input string) {
	switch input {
	case "start":
		p.Do("A")
		p.Do("Z")
	case "stop":
		p.End()
	}
}

// Cycle reads one event an execution, once its activity has completed, and goes on as new with the others; another
// activity is still under way then. Having read two it ends. Of each it tells somebody.
func Cycle(p *Past, input string) {
	if input == "start" {
		p.Do("A")
		p.Do("Z")
		return
	}
	if !p.Did("A") || len(p.Unread) == 0 {
		return
	}
	p.Tell("had" + p.Read())
	if len(p.Inputs)-len(p.Unread) > 2 {
		p.End()
		return
	}
	p.Again()
}

// Count goes on as new with every event, and ends with the third.
func Count(p *Past, _ string) {
	switch {
	case len(p.Unread) == 0:
	case p.Execution > 2:
		p.End()
	default:
		p.Read()
		p.Again()
	}
}

// Brief ends at once the first time, and when its activity has completed the next.
func Brief(p *Past, input string) {
	switch {
	case input == "start" && p.Took("start2"):
		p.Do("A")
	case input == "start", input == "A":
		p.End()
	}
}

// Sweep waits for an activity, reads whatever has arrived by then, and ends.
func Sweep(p *Past, input string) {
	switch input {
	case "start":
		p.Do("A")
	case "A":
		p.Poll()
	case "observed":
		for len(p.Unread) > 0 {
			p.Read()
		}
		p.End()
	}
}

// Report tells of what came first, and ends.
func Report(p *Past, input string) {
	switch {
	case input == "start":
		p.Do("A")
	case input == "go" && !p.Did("A"):
		p.Tell("early")
	case input == "A" && !p.Took("go"):
		p.Tell("late")
	}
	if p.Did("A") && p.Took("go") {
		p.End()
	}
}
