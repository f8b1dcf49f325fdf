package record

import (
	"slices"
	"testing"
)

// A commit that changes no attribute neither names nor parses them.
func TestReindexParsesAttributesOnlyIfTheyChange(t *testing.T) {
	two := `{"items":5,"tenant":"acme"}`
	end := func(attributes string) float64 {
		was := &Record{Name: "hello", Status: Running, Attributes: attributes}
		return testing.AllocsPerRun(10, func() {
			c := Commit{Record: &Record{Status: Completed, Events: 4}}
			c.Reindex(was)
			if len(c.Leave)+len(c.Enter) > 0 || was.Attributes != attributes {
				t.Errorf("%+v, %+v of %s", c.Leave, c.Enter, was.Attributes)
			}
		})
	}
	if without, with := end(""), end(two); with > without+1 {
		t.Errorf("an end allocates %v times, without attributes %v", with, without)
	}
	for _, x := range []struct {
		was          *Record
		change       Record
		leave, enter []Entry
	}{
		{nil, Record{Name: "hello", Status: Running, Attributes: `{"tenant":"acme"}`}, nil, []Entry{{Field: "orchestration", Value: "hello"}, {Field: "tenant", Value: "acme"}}},
		{&Record{Name: "hello", Attributes: two}, Record{Attributes: `{"items":6,"tenant":"b"}`}, []Entry{{Field: "tenant", Value: "acme"}}, []Entry{{Field: "items", Value: "6", Numeric: true}, {Field: "tenant", Value: "b"}}},
		{&Record{Name: "hello", Attributes: two}, Record{Attributes: "{}"}, []Entry{{Field: "items", Value: "5", Numeric: true}, {Field: "tenant", Value: "acme"}}, nil},
		{&Record{Name: "hello", Attributes: two}, Record{Name: "bye", NewIncarnation: true, Attributes: two}, []Entry{{Field: "orchestration", Value: "hello"}}, []Entry{{Field: "orchestration", Value: "bye"}}},
	} {
		c := Commit{Record: &x.change}
		if c.Reindex(x.was); !slices.Equal(c.Leave, x.leave) || !slices.Equal(c.Enter, x.enter) || x.change.Attributes == "" {
			t.Errorf("%+v: leaves %+v, enters %+v", x.change, c.Leave, c.Enter)
		}
	}
}
