package eventcodec

import (
	"cmp"
	"slices"

	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// MaxStatuses is the maximum number of named statuses of an instance.
const MaxStatuses = 8

// typeStatuses is the content type of a custom status that contains named statuses.
const typeStatuses = "pawl/statuses"

// NamedStatus is one of the statuses of an instance.
//
// An instance has a single custom status with a single version: in its record, in the start of its next execution, and for its
// watchers. If the instance has named statuses, that custom status contains all of them, each with the number of times that
// another one was set since:
//
//	only the status without a name   its payload, with the version of the custom status
//	others, too                      [[name, since, payload], …], sorted by name, with the type pawl/statuses
//
// The number is relative because only the record contains the version: code that was changed or rewound would count differently.
type NamedStatus struct {
	Name    string // empty: the status without a name
	Version uint64 // version of the custom status when this status was last set
	Payload history.Payload
}

// Cleared reports whether the value was removed.
func (s *NamedStatus) Cleared() bool { return s.Payload.Type == "" }

// SplitStatus returns the statuses in a custom status, sorted by name; nil if none was ever set.
func SplitStatus(p history.Payload, version uint64) (all []NamedStatus, err error) {
	switch {
	case version == 0:
		return nil, nil
	case p.Type != typeStatuses:
		return []NamedStatus{{Version: version, Payload: p}}, nil
	}
	err = wire.Decode(p.Data, statusFields(&all, version))
	return all, err
}

// SetStatus returns the custom status with the value of name replaced, which has the next version. ok is false if that exceeds MaxStatuses.
func SetStatus(p history.Payload, version uint64, name string, v history.Payload) (history.Payload, bool, error) {
	all, err := SplitStatus(p, version)
	if err != nil {
		return p, false, err
	}
	version++
	set := NamedStatus{Name: name, Version: version, Payload: v}
	i, found := slices.BinarySearchFunc(all, name, func(s NamedStatus, name string) int { return cmp.Compare(s.Name, name) })
	if found {
		all[i] = set
	} else {
		all = slices.Insert(all, i, set)
	}
	if len(all) == 1 && name == "" {
		return v, true, nil
	}
	named := len(all)
	if all[0].Name == "" {
		named--
	}
	return history.Payload{Type: typeStatuses, Data: wire.Encode(statusFields(&all, version))}, named <= MaxStatuses, nil
}

// statusFields describes the statuses in a custom status of the given version.
func statusFields(all *[]NamedStatus, version uint64) func(*wire.Codec) {
	return func(c *wire.Codec) {
		wire.List(c, all, func(c *wire.Codec, s *NamedStatus) {
			c.Record(func(c *wire.Codec) {
				c.String(&s.Name)
				since := version - min(s.Version, version)
				c.Uint(&since)
				s.Version = max(version-min(since, version), 1)
				PayloadFields(c, &s.Payload)
			})
		})
	}
}
