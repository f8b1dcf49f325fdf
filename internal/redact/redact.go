// Package redact keeps the secrets of URLs out of messages: in what is shown of a URL, and in the errors of parsers, which
// quote what they cannot read.
package redact

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// ErrURL is returned for a URL that cannot be read. It quotes nothing: an unescaped character in a password is the usual cause.
var ErrURL = errors.New("the URL cannot be read: in its user and password, write / as %2F, ? as %3F, # as %23, @ as %40, : as %3A, comma as %2C and % as %25, or give them in a password file")

const hidden = "***"

// URLs returns a list of URLs, separated by commas, as it may be shown: schemes, hosts, and a path that is the number of a
// database or of a Unix socket. Users, passwords and queries are not shown. Of a URL that cannot be read, and of those
// before one with a user, only the scheme is.
func URLs(list string) string {
	groups := split(list)
	var shown []string
	for i, g := range groups {
		unread := g.check() != nil
		if unread || !g.user && later(groups[i+1:]) {
			shown = append(shown, g.scheme+hidden)
		} else {
			shown = append(shown, g.String())
		}
		if unread || strings.ContainsAny(g.tail, "?#") {
			break // what follows may be of a password
		}
	}
	return strings.Join(shown, ",")
}

// Check returns ErrURL if a URL of the list cannot be read, or has an @ behind its host, where the rest of a password that
// is not escaped would be.
func Check(list string) error {
	for _, g := range split(list) {
		if err := g.check(); err != nil {
			return err
		}
	}
	return nil
}

// group is a URL that may have several hosts.
type group struct {
	scheme string // with "://"; empty: without
	user   bool   // has a user, or a user and a password
	info   string // these
	hosts  []string
	tail   string // path, query and fragment
}

// schemes finds where a URL of a list begins: at a scheme that Pawl's settings have, for a password may have a comma, too.
var schemes = regexp.MustCompile(`(?:^|,)\s*((?:nats|tls|wss?|rediss?|unix)(?:\+[a-z]{1,16})?://)`)

func split(list string) []group {
	var groups []group
	begins := schemes.FindAllStringSubmatchIndex(list, -1)
	if len(begins) == 0 || begins[0][0] > 0 {
		begins = append([][]int{{0, 0, 0, 0}}, begins...)
	}
	for i, at := range begins {
		end := len(list)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		g := group{scheme: list[at[2]:at[3]]}
		rest := list[at[3]:end]
		if tail := strings.IndexAny(rest, "/?#"); tail >= 0 {
			rest, g.tail = rest[:tail], rest[tail:]
		}
		if user := strings.LastIndexByte(rest, '@'); user >= 0 {
			g.user, g.info, rest = true, rest[:user], rest[user+1:]
		}
		g.hosts = strings.Split(rest, ",")
		groups = append(groups, g)
	}
	return groups
}

func later(groups []group) bool {
	for _, g := range groups {
		if g.user {
			return true
		}
	}
	return false
}

func (g group) check() error {
	if strings.Contains(g.tail, "@") {
		return ErrURL
	}
	if _, err := url.Parse("x://h" + g.tail); err != nil {
		return ErrURL
	}
	if g.user {
		// A comma is a mistake, or separates hosts of which each has a user.
		if u, err := url.Parse("x://" + g.info + "@h"); err != nil || u.User == nil {
			return ErrURL
		}
	}
	for _, h := range g.hosts {
		if _, err := url.Parse("x://" + strings.TrimSpace(h)); err != nil {
			return ErrURL
		}
	}
	return nil
}

var database = regexp.MustCompile(`^/[0-9]{0,4}$`)

// String returns what may be shown.
func (g group) String() string {
	shown := g.scheme
	if g.user {
		shown += hidden + "@"
	}
	shown += strings.Join(g.hosts, ",")
	path, _, _ := strings.Cut(g.tail, "?")
	path, _, _ = strings.Cut(path, "#")
	if database.MatchString(path) || g.scheme == "unix://" {
		shown += path
	}
	return shown
}
