package orchestrator_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Trap: a wake-up that is lost and healed by a poll: correct, and two seconds late. A start that is ingested while the owner
// reads the inbox of the events before it must be seen by the owner, not by the next look.
func TestStartRightBehindEventsForItsIDBeginsAtOnce(t *testing.T) {
	const instances, events, atOnce, late = 160, 5, 8, 1800 * time.Millisecond
	s := newStand(t)
	began := make(map[string]chan time.Time) // read only, once the orchestrator runs
	for i := range instances {
		began[fmt.Sprint("w-", i)] = make(chan time.Time, 1)
	}
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, id string) (string, error) {
		select {
		case began[id] <- time.Now():
		default: // a replay
		}
		for range events {
			if _, err := ping.Receive(ctx); err != nil {
				return "", err
			}
		}
		return "", nil
	}))
	var behind []string
	for first := 0; first < instances; first += atOnce {
		started := make([]time.Time, atOnce)
		var senders sync.WaitGroup
		for k := range atOnce {
			senders.Go(func() {
				id := fmt.Sprint("w-", first+k)
				for e := range events {
					s.event("ping", id, fmt.Sprintf("%q", fmt.Sprint(e)))
				}
				s.start("hello", id, fmt.Sprintf("%q", id))
				started[k] = time.Now()
			})
		}
		senders.Wait()
		for k, at := range started {
			id := fmt.Sprint("w-", first+k)
			select {
			case ran := <-began[id]:
				if d := ran.Sub(at); d > late {
					behind = append(behind, fmt.Sprintf("%s %v", id, d.Round(time.Millisecond)))
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s does not begin", id)
			}
		}
	}
	if len(behind) > 1 { // one may be the machine's
		t.Errorf("%d of %d begin late: %v", len(behind), instances, behind)
	}
	for i := range instances {
		s.ended(fmt.Sprint("w-", i))
	}
}
