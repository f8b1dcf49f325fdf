package cancel

import (
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// inPartition returns an id in partition p.
func inPartition(prefix string, p int) string {
	for try := 0; ; try++ {
		if id := fmt.Sprintf("%s-%d", prefix, try); transport.PartitionOf(id, partitions) == p {
			return id
		}
	}
}

func TestEndOfParentCancelsActivitiesOfItsChildren(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	a.worker("worker")
	for how, reason := range map[string]cancel.Reason{"done": cancel.OrchestrationCompleted, "error": cancel.OrchestrationFailed} {
		id, child := inPartition("parent-"+how, 0), inPartition("child-"+how, 3)
		in, err := author.Input(Parent).Encode(Try{How: how, Child: child})
		a.start(Parent, id, in, err)
		a.await("began", child, 1)
		a.send(id)
		tr := trigger{reason: reason, by: id}
		tr.checkCause(a, a.await("cancelled", child, 1)[0])
		if recorded := a.cancellations(child, 1, 1)[0]; recorded.Reason != reason {
			t.Errorf("the history of the child has %+v", recorded.ActivityCancelRequested)
		}
		if end, ok := a.ended(child).(*history.Cancelled); !ok {
			t.Errorf("the child ended with %+v", end)
		}
		a.ended(id)
	}
	a.check()
}

// Four instances, each the child of the previous one and each in a different partition. The last one runs the activity.
func TestCancellationReachesThreeGenerationsWithItsReason(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	a.worker("worker")
	ids := make([]string, partitions)
	for p := range ids {
		ids[p] = inPartition(fmt.Sprint("nest-", p), p)
	}
	in, err := author.Input(Nest).Encode(Eggs{Nests: ids[1:]})
	a.start(Nest, ids[0], in, err)
	egg := ids[len(ids)-1]
	a.await("began", egg, 1)
	a.must(a.Client.Cancel(a.ctx, ids[0], freeText))
	tr := trigger{reason: cancel.Requested, by: "ada", text: freeText}
	tr.checkCause(a, a.await("cancelled", egg, 1)[0])
	if recorded := a.cancellations(egg, 1, 1)[0]; recorded.Reason != cancel.Requested || recorded.By != "ada" || recorded.Text != freeText {
		t.Errorf("the history has %+v", recorded.ActivityCancelRequested)
	}
	for _, id := range ids {
		if end, ok := a.ended(id).(*history.Cancelled); !ok {
			t.Errorf("%s ended with %+v", id, end)
		}
	}
	a.check()
}
