package client

import (
	"context"
	"fmt"
	"testing"
)

func TestIncompleteListNamesACauseThatIsNoCancellation(t *testing.T) {
	cancelled := fmt.Errorf("%w (last: %w)", context.Canceled, ErrNoOwner)
	all := []*source[int]{
		{partitions: []int{0}, err: cancelled}, {partitions: []int{1}}, {partitions: []int{3}, err: ErrNoOwner}, {partitions: []int{2}, err: ErrNoOwner},
	}
	want := "client: list incomplete, 3 of 4 partitions did not answer; partition 2: " + ErrNoOwner.Error()
	if err := missing(all, 4); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := missing(all[:2], 2); err == nil {
		t.Error("a partition is missing")
	}
	if err := missing(all[1:2], 1); err != nil {
		t.Error(err)
	}
}
