package orchestrator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Only one of several concurrent calls of Start starts the orchestrator. The others fail and start nothing: the goroutines of a second start
// would outlive Stop, which TestMain reports.
func TestOneOfConcurrentStartsSucceeds(t *testing.T) {
	const callers = 4
	s := newHarness(t)
	o, err := orchestrator.New(orchestrator.Config{NATS: s.nats, Redis: s.redis, Namespace: s.ns, Partitions: 8, Logger: s.log},
		hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // the second round follows a Stop
		begin, errs := make(chan struct{}), make(chan error, callers)
		for range callers {
			go func() {
				<-begin
				errs <- o.Start(context.Background())
			}()
		}
		close(begin)
		succeeded := 0
		for range callers {
			switch err := <-errs; {
			case err == nil:
				succeeded++
			case !errors.Is(err, orchestrator.ErrStarted):
				t.Errorf("round %d: %v, want ErrStarted", round, err)
			}
		}
		if succeeded != 1 {
			t.Fatalf("round %d: %d of %d concurrent calls of Start succeeded", round, succeeded, callers)
		}
		s.stop(o)
	}
}
