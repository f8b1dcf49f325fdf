package api

import "github.com/pawlrun/pawl/pkg/client"

// Versions are the versions of a namespace.
type Versions struct {
	Versions      []Version `json:"versions"`
	Orchestrators []string  `json:"orchestrators"` // orchestrators that own partitions
	Partial       bool      `json:"partial"`       // a partition has more instances than were counted
}

// Version is a version of an orchestration.
type Version struct {
	Orchestration string   `json:"orchestration"`
	Version       string   `json:"version"`       // empty: the orchestration has no versions
	Instances     uint64   `json:"instances"`     // instances that have not ended
	Orchestrators []string `json:"orchestrators"` // orchestrators that have the code
}

// VersionsOf converts the versions of a namespace.
func VersionsOf(v client.Versions) Versions {
	out := Versions{Versions: []Version{}, Orchestrators: append([]string{}, v.Orchestrators...), Partial: v.Partial}
	for _, x := range v.Versions {
		out.Versions = append(out.Versions, Version{
			Orchestration: x.Orchestration, Version: x.Version, Instances: x.Instances, Orchestrators: append([]string{}, x.Orchestrators...),
		})
	}
	return out
}
