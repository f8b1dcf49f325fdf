package api

import (
	"github.com/pawlrun/pawl/pkg/client"
)

// Versions are the versions of a namespace.
type Versions struct {
	Versions      []Version `json:"versions"`
	Orchestrators []string  `json:"orchestrators"` // that own partitions
	Partial       bool      `json:"partial"`       // a partition has more instances than are counted
}

// Version is a version of an orchestration.
type Version struct {
	Orchestration string   `json:"orchestration"`
	Version       string   `json:"version"`       // empty: without versions
	Instances     uint64   `json:"instances"`     // that have not ended
	Orchestrators []string `json:"orchestrators"` // that have its code
}

// VersionsOf describes the versions.
func VersionsOf(v client.Versions) Versions {
	out := Versions{Versions: []Version{}, Orchestrators: append([]string{}, v.Orchestrators...), Partial: v.Partial}
	for _, x := range v.Versions {
		out.Versions = append(out.Versions, Version{
			Orchestration: x.Orchestration, Version: x.Version, Instances: x.Instances, Orchestrators: append([]string{}, x.Orchestrators...),
		})
	}
	return out
}
