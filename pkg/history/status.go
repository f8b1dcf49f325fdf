package history

import (
	"cmp"
	"slices"

	"github.com/pawlrun/pawl/internal/wire"
)

// MaxStatuses is the maximum of named statuses of an instance.
const MaxStatuses = 8

// typeStatuses is the type of a custom status that has named values.
const typeStatuses = "pawl/statuses"

// NamedStatus is one of the statuses of an instance.
//
// An instance has one custom status, with one version: that is what its record, the start of its next execution and its watchers have. An
// instance that has named statuses has all of them in that, each with the number of times that others were set since:
//
//	only the status without a name   its payload, with the version of the custom status
//	others, too                      [[name, since, payload], …], by name, with the type pawl/statuses
//
// The number is relative, because only the record has the version: code that was changed or rewound counts otherwise.
type NamedStatus struct {
	Name    string // empty: the one without a name
	Version uint64 // of the custom status, when it was set last
	Payload Payload
}

// Cleared reports that the value was removed.
func (s *NamedStatus) Cleared() bool { return s.Payload.Type == "" }

// SplitStatus returns the statuses in a custom status, by name; nil if none was ever set.
func SplitStatus(p Payload, version uint64) (all []NamedStatus, err error) {
	switch {
	case version == 0:
		return nil, nil
	case p.Type != typeStatuses:
		return []NamedStatus{{Version: version, Payload: p}}, nil
	}
	err = wire.Decode(p.Data, statusFields(&all, version))
	return all, err
}

// SetStatus returns a custom status with another value of a name, and the next version. It reports false for a name beyond MaxStatuses.
func SetStatus(p Payload, version uint64, name string, v Payload) (Payload, bool, error) {
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
	return Payload{Type: typeStatuses, Data: wire.Encode(statusFields(&all, version))}, named <= MaxStatuses, nil
}

// statusFields encodes or decodes statuses in a custom status of a version.
func statusFields(all *[]NamedStatus, version uint64) func(*wire.Codec) {
	return func(c *wire.Codec) {
		wire.List(c, all, func(c *wire.Codec, s *NamedStatus) {
			c.Record(func(c *wire.Codec) {
				c.String(&s.Name)
				since := version - min(s.Version, version)
				c.Uint(&since)
				s.Version = max(version-min(since, version), 1)
				s.Payload.WireFields(c)
			})
		})
	}
}
