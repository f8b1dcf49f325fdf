package client

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawlrun/pawl/internal/request"
)

// Versions describes the use of orchestration versions in a namespace.
type Versions struct {
	Versions      []VersionUse // sorted by orchestration and version
	Orchestrators []string     // orchestrators that own partitions, sorted
	Partial       bool         // a partition has more than 20,000 instances that have not ended, of which only these are counted
}

// VersionUse describes the use of one version of an orchestration.
type VersionUse struct {
	Orchestration string
	Version       string   // empty: the orchestration has no versions
	Instances     uint64   // instances that have started and not ended
	Orchestrators []string // orchestrators that have its code, sorted; empty: its instances are stalled
}

// Versions counts the instances that have not ended by version, and lists the orchestrators that have the code of each version.
// Orchestrators without partitions are not included. It reads the record of each instance, so it is meant for deployments and not for
// metrics. If some partitions do not answer, it returns the result of the others together with an error, as Partitions does.
func (c fleet) Versions(ctx context.Context) (Versions, error) {
	sources := openAll(ctx, c.client.partitions(), func(ctx context.Context, partition int, _ string) ([]request.OwnerVersions, string, error) {
		var r request.OwnerVersions
		err := c.client.requestWithin(ctx, c.client.opts.OwnerTimeout, partition, new(request.Versions), &r)
		return []request.OwnerVersions{r}, "", err
	})
	var out Versions
	all := make(map[[2]string]*VersionUse)
	of := func(orchestration, version string) *VersionUse {
		k := [2]string{orchestration, version}
		if all[k] == nil {
			all[k] = &VersionUse{Orchestration: orchestration, Version: version}
		}
		return all[k]
	}
	for _, s := range sources {
		for _, r := range s.rows {
			out.Partial = out.Partial || r.More
			for _, n := range r.Instances {
				of(n.Orchestration, n.Version).Instances += n.Count
			}
			if slices.Contains(out.Orchestrators, r.Member) {
				continue
			}
			out.Orchestrators = append(out.Orchestrators, r.Member)
			for _, code := range r.Code {
				for _, v := range code.Versions {
					x := of(code.Orchestration, v)
					x.Orchestrators = append(x.Orchestrators, r.Member)
				}
			}
		}
	}
	slices.Sort(out.Orchestrators)
	for _, v := range all {
		slices.Sort(v.Orchestrators)
		out.Versions = append(out.Versions, *v)
	}
	slices.SortFunc(out.Versions, func(a, b VersionUse) int {
		return cmp.Or(cmp.Compare(a.Orchestration, b.Orchestration), cmp.Compare(a.Version, b.Version))
	})
	return out, missing(sources, c.client.partitions())
}
