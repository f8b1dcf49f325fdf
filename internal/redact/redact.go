// Package redact removes secrets from URLs that are shown, and replaces errors of parsers, which quote the text that they cannot parse.
package redact

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ErrURL is the error for a URL that cannot be parsed. It quotes nothing, because the usual cause is an unescaped character in a password.
var ErrURL = errors.New("the URL cannot be read: in its user and password, write / as %2F, ? as %3F, # as %23, @ as %40, : as %3A, comma as %2C and % as %25, or give them in a password file")

const hidden = "***"

// URLs redacts a list of URLs, separated by commas. It keeps schemes, hosts, and paths that are the number of a
// database or a Unix socket, and removes users, passwords and queries. Of a URL that cannot be parsed, and of the URLs without a user
// before one with a user, it keeps only the scheme, because the rest could be a part of a password.
func URLs(list string) string {
	groups := split(list)
	var shown []string
	for i, g := range groups {
		unread := g.check() != nil
		if unread || !g.user && slices.ContainsFunc(groups[i+1:], func(g group) bool { return g.user }) {
			shown = append(shown, g.scheme+hidden)
		} else {
			shown = append(shown, g.String())
		}
		if unread || strings.ContainsAny(g.tail, "?#") {
			break // the rest may be a part of a password
		}
	}
	return strings.Join(shown, ",")
}

// Check returns ErrURL if a URL of the list cannot be parsed, or has an @ after its host, which indicates a password that is not escaped.
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
	scheme string // with "://"; empty without a scheme
	user   bool   // has a user, or a user and a password
	info   string // the user and the password
	hosts  []string
	tail   string // path, query and fragment
}

// schemes finds the beginning of each URL of a list: a scheme that Pawl's settings support. A comma alone is not sufficient, because passwords
// may contain commas.
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

func (g group) check() error {
	if strings.Contains(g.tail, "@") {
		return ErrURL
	}
	if _, err := url.Parse("x://h" + g.tail); err != nil {
		return ErrURL
	}
	if g.user {
		// A comma here is a mistake, or separates hosts that each have a user.
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

// String returns the redacted URL.
func (g group) String() string {
	shown := g.scheme
	if g.user {
		shown += hidden + "@"
	}
	shown += strings.Join(g.hosts, ",")
	path := g.tail
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	if database.MatchString(path) || g.scheme == "unix://" {
		shown += path
	}
	return shown
}
