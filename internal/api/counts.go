package api

import "github.com/pawlrun/pawl/pkg/client"

// Counts are numbers of instances.
type Counts struct {
	Count      uint64  `json:"count"`                // that pass the filter
	AtLeast    bool    `json:"at_least,omitempty"`   // there may be more: not all that the filter leaves were read
	By         string  `json:"by,omitempty"`         // the field of the groups; absent: only count
	Groups     []Group `json:"groups,omitzero"`      // the largest first; values that no instance has are left out
	Other      uint64  `json:"other,omitempty"`      // of count, those in no group: their values were not read
	Stalled    *uint64 `json:"stalled,omitempty"`    // of all instances; only by status without a filter
	Incomplete string  `json:"incomplete,omitempty"` // why instances are missing: partitions that did not answer
}

// Group is the number of instances with a value.
type Group struct {
	Value string `json:"value"` // "": without one
	Count uint64 `json:"count"`
}

// CountsOf gives the counts that were asked for.
func CountsOf(c client.Counts, o client.CountOptions) Counts {
	out := Counts{Count: c.Count, AtLeast: c.AtLeast, By: o.By, Other: c.Other}
	if o.By != "" {
		out.Groups = []Group{}
	}
	if o.By == "status" && o.Where == "" {
		out.Stalled = &c.Stalled
	}
	for _, g := range c.Groups {
		out.Groups = append(out.Groups, Group(g))
	}
	return out
}
