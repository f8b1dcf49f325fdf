package api

import "github.com/pawlrun/pawl/pkg/client"

// Counts are numbers of instances.
type Counts struct {
	Count      uint64  `json:"count"`                // instances that pass the filter
	AtLeast    bool    `json:"at_least,omitempty"`   // count may be higher: not all candidates were read
	By         string  `json:"by,omitempty"`         // field of the groups; left out: no groups
	Groups     []Group `json:"groups,omitzero"`      // the largest first, without empty ones
	Other      uint64  `json:"other,omitempty"`      // instances of count in no group, because their values were not read
	Stalled    *uint64 `json:"stalled,omitempty"`    // stalled instances; only by status without a filter
	Incomplete string  `json:"incomplete,omitempty"` // why instances are missing: partitions that did not answer
}

// Group is the number of instances with a value.
type Group struct {
	Value string `json:"value"` // "": instances without a value
	Count uint64 `json:"count"`
}

// CountsOf converts the counts of a request with these options.
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
