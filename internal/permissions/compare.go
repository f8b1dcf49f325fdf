package permissions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/transport"
)

// Status is the kind of a difference.
type Status string

// The statuses.
const (
	Lacking Status = "lacking"
	Extra   Status = "extra"
)

// Finding is one difference between the permissions of a user and those that its role requires.
type Finding struct {
	Server string `json:"server"` // nats or redis
	Status Status `json:"status"`
	Right  string `json:"right"` // on NATS publish or subscribe, on Redis command
	What   string `json:"what"`  // a subject, a command or a pattern of keys
}

// Compare orders findings, lacking permissions first.
func (f Finding) Compare(g Finding) int {
	return cmp.Or(cmp.Compare(g.Status, f.Status), cmp.Compare(f.Server, g.Server), cmp.Compare(f.Right, g.Right), cmp.Compare(f.What, g.What))
}

// granted are the subjects that a user may use. Without Allow, it may use all subjects except Deny.
type granted struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// differences compares the required subjects with the granted ones. With partial, a part of a required subject is sufficient.
func differences(right string, need []string, have *granted, partial bool) []Finding {
	if have == nil {
		have = &granted{}
	}
	allow := have.Allow
	if len(allow) == 0 {
		allow = []string{">"}
	}
	var all []Finding
	add := func(s Status, what string) {
		all = append(all, Finding{Server: "nats", Status: s, Right: right, What: what})
	}
	for _, n := range need {
		some := slices.ContainsFunc(allow, func(a string) bool { return covers(a, n) || partial && covers(n, a) })
		if !some || slices.ContainsFunc(have.Deny, func(d string) bool { return overlap(d, n) }) {
			add(Lacking, n)
		}
	}
	for _, a := range allow {
		if !slices.ContainsFunc(need, func(n string) bool { return covers(n, a) }) {
			add(Extra, a)
		}
	}
	return all
}

// covers reports whether every subject that matches b matches a.
func covers(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i, t := range as {
		switch {
		case t == ">":
			return len(bs) > i
		case len(bs) <= i, bs[i] == ">", t != "*" && t != bs[i]:
			return false
		}
	}
	return len(as) == len(bs)
}

// overlap reports whether some subject matches both a and b.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, y := as[i], bs[i]
		switch {
		case x == ">", y == ">":
			return true
		case x != "*" && y != "*" && x != y:
			return false
		}
	}
	return len(as) == len(bs)
}

// inboxes returns the inbox prefix of each role, given that own is the prefix of role r: the prefixes of NATSInbox, if own is one of them, and
// otherwise own for all roles.
func inboxes(namespace string, r transport.Role, own string) func(transport.Role) string {
	if own == NATSInbox(namespace, r) {
		return func(r transport.Role) string { return NATSInbox(namespace, r) }
	}
	return func(transport.Role) string { return own }
}
