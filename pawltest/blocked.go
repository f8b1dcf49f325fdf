package pawltest

import "github.com/pawlrun/pawl/internal/stacks"

// guard runs orchestration code and detects that it blocks.
type guard struct{ stacks.Guard }

func newGuard() guard { return guard{stacks.NewGuard()} }

// blockedError reports orchestration code that blocks. Without this check the test would not end.
type blockedError struct{ stack string }

func (e *blockedError) Error() string {
	return "orchestration code blocks: it loops, or waits for something other than Pawl's futures; its goroutine is abandoned\n" + e.stack
}

// run runs f. If the code blocks, run returns a *blockedError while f is still running.
func (g guard) run(f func()) error {
	if stack, blocked := g.Run(f, "replay.(*strand).park"); blocked {
		return &blockedError{stack: stack}
	}
	return nil
}
