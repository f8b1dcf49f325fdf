package work

import (
	"context"
	"os"
	"time"

	"github.com/pawlrun/pawl"
)

// Places is the number of slots of Booth, and of Lobby.
const Places = 2

// The callers of limited actions. A visitor calls several booths at once. A regular calls a booth and keeps its slot. Guests
// call the lobby, where each stays for two executions. Holders stay until the ledger is opened.
var (
	Visitor = pawl.NewOrchestration[int, int]("visitor")
	Regular = pawl.NewOrchestration[int, int]("regular")
	Lobby   = pawl.NewOrchestration[int, int]("lobby", pawl.Concurrency(Places))
	Booth   = pawl.NewActivity[int, int]("booth", pawl.Concurrency(Places))
	Sign    = pawl.NewActivity[string, pawl.None]("sign")
)

// First words of their lines in the ledger.
const (
	BoothIn  = "booth-in"
	BoothOut = "booth-out"
	LobbyIn  = "lobby-in"
	LobbyOut = "lobby-out"
)

// visitor returns the number of booths that it has called.
func visitor(ctx *pawl.Context, booths int) (int, error) {
	all := make([]*pawl.Future[int], booths)
	for i := range all {
		all[i] = Booth.Start(ctx, i)
	}
	been, err := pawl.All(ctx, all...)
	return len(been), err
}

// regular leaves its booth at the first Go, and ends at the second.
func regular(ctx *pawl.Context, n int) (int, error) {
	if _, err := pawl.Select(ctx, Booth.Start(ctx, n, pawl.Retry{Attempts: 2}, pawl.KeepSlot()), Go.Next(ctx)); err != nil {
		return 0, err
	}
	return Go.Receive(ctx)
}

// lobby returns the number of its executions.
func lobby(ctx *pawl.Context, before int) (int, error) {
	if before > 0 {
		_, err := Sign.Call(ctx, LobbyOut)
		return before + 1, err
	}
	if _, err := Sign.Call(ctx, LobbyIn); err != nil {
		return 0, err
	}
	return Lobby.ContinueAsNew(ctx, 1)
}

func limited() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{Visitor.Do(visitor), Regular.Do(regular), Lobby.Do(lobby)}
}

// Open releases all holders, present and future.
func (l Ledger) Open() error { return os.WriteFile(l.opened(), nil, 0o600) }

func (l Ledger) opened() string { return string(l) + ".open" }

func (l Ledger) wait(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond) // also the time that a holder stays once the ledger is open
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := os.Stat(l.opened()); err == nil {
			return nil
		}
	}
}

func (l Ledger) booth(ctx context.Context, n int) (int, error) {
	if err := l.write(ctx, BoothIn); err != nil {
		return 0, err
	}
	if err := l.wait(ctx); err != nil {
		return 0, err
	}
	return n, l.write(ctx, BoothOut)
}

func (l Ledger) sign(ctx context.Context, what string) (pawl.None, error) {
	if err := l.write(ctx, what); err != nil {
		return pawl.None{}, err
	}
	return pawl.None{}, l.wait(ctx)
}
