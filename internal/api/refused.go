package api

import "github.com/pawlrun/pawl/pkg/client"

// Refused describes an input that could not be used.
type Refused struct {
	Instance string `json:"instance"`
	At       string `json:"at"`
	Reason   string `json:"reason"`
}

// RefusedList is a list of refused inputs.
type RefusedList struct {
	Refused []Refused `json:"refused"`
}

// RefusedOf converts a refused input.
func RefusedOf(r client.Refused) Refused {
	return Refused{Instance: r.Instance, At: Timestamp(r.At), Reason: r.Reason}
}
