package core

import (
	"slices"
	"testing"

	"github.com/pawlrun/pawl/internal/record"
)

// A change names the values that an instance may have had before, so that watchers of those values receive it. A new instance had none.
func TestChangeNamesTheFieldsWhoseValuesWereReplaced(t *testing.T) {
	tenant, items := record.Entry{Field: "tenant", Value: "acme"}, record.Entry{Field: "items", Value: "5", Numeric: true}
	code := record.Entry{Field: "code", Value: "x"}
	for _, x := range []struct {
		commit  record.Commit
		stalled bool
		want    []string
	}{
		{commit: record.Commit{Enter: []record.Entry{tenant, items}}},
		{commit: record.Commit{From: record.Running, Enter: []record.Entry{code}}},
		{commit: record.Commit{From: record.Running, Leave: []record.Entry{tenant, code}, Enter: []record.Entry{tenant, items}}, want: []string{"tenant", "code", "items"}},
		{commit: record.Commit{From: record.Running}, stalled: true, want: []string{"stalled"}},
	} {
		if got := replacedBy(&x.commit, x.stalled); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %q, want %q", x.commit, got, x.want)
		}
	}
}
