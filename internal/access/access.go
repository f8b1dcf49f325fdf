// Package access authorizes HTTP requests. Users have roles, and prove their identity with tokens from a file or from an OpenID Connect
// issuer. A server on a loopback address may do without users.
package access

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Role determines the permissions of a user. Each role includes the permissions of the lower ones.
type Role int

// The roles.
const (
	Viewer   Role = iota + 1 // read everything
	Operator                 // start, send and cancel
	Admin                    // purge, clear queues and set policies
)

// String returns the name of the role.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	default:
		return "none"
	}
}

func parseRole(name string) (Role, bool) {
	for r := Viewer; r <= Admin; r++ {
		if r.String() == name {
			return r, true
		}
	}
	return 0, false
}

// User is the sender of a request.
type User struct {
	Name string // in histories and in the log
	Role Role
}

// Policy authorizes requests. The zero value refuses all requests.
type Policy struct {
	// Loopback is set if only this machine can reach the server. Then every client is an admin unless there are users, and requests whose
	// Host header does not name this machine are refused.
	Loopback bool
	Tokens   *Tokens // nil: none
	OIDC     *OIDC   // nil: none
}

// Users reports whether requests must prove the identity of a user.
func (p Policy) Users() bool { return p.Tokens != nil || p.OIDC != nil }

// local is the user of all requests to a server on a loopback address without users.
var local = User{Name: "http", Role: Admin}

// Refusal is the reason for which a request is not served. Its fields are those of the error response.
type Refusal struct {
	Status int    // HTTP status
	Detail string // the reason
	Do     string // advice to the caller; may be empty
}

// Error returns the detail.
func (r *Refusal) Error() string { return r.Detail }

// Cookie is the name of the cookie that may contain the token, instead of the header Authorization.
const Cookie = "pawl_token"

// User returns the sender of a request, and checks that its role is at least the required one. what names the operation in the error, which
// is a *Refusal.
func (p Policy) User(r *http.Request, required Role, what string) (User, error) {
	if p.Loopback && !localHost(r.Host) {
		return User{}, &Refusal{
			Status: http.StatusMisdirectedRequest, Detail: fmt.Sprintf("host %q is not this machine", r.Host), Do: "use localhost or 127.0.0.1",
		}
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil { // permits all safe methods, such as GET
		return User{}, &Refusal{
			Status: http.StatusForbidden, Detail: "a page of another origin sent this request", Do: "send it from a page of this server, or without the header Origin",
		}
	}
	u := local
	switch {
	case p.Users():
		var err error
		if u, err = p.byToken(r); err != nil {
			return User{}, err
		}
	case !p.Loopback:
		return User{}, &Refusal{
			Status: http.StatusForbidden, Detail: "this server listens on a network address and has no tokens, so it serves health and metrics only",
			Do: "start it with a file of tokens (--http-tokens) or an issuer (--oidc-issuer), or on a loopback address",
		}
	}
	if u.Role < required {
		return User{}, &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s has the role %s; %s requires %s", u.Name, u.Role, what, required)}
	}
	return u, nil
}

// byToken returns the user whose token a request contains.
func (p Policy) byToken(r *http.Request) (User, error) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		c, err := r.Cookie(Cookie)
		if err != nil {
			return User{}, &Refusal{Status: http.StatusUnauthorized, Detail: "a token is required", Do: "send it in the header Authorization: Bearer TOKEN"}
		}
		token = c.Value
	}
	if p.OIDC != nil && (p.Tokens == nil || looksSigned(token)) {
		return p.OIDC.user(r.Context(), token)
	}
	u, known := p.Tokens.Find(token)
	if !known {
		return User{}, &Refusal{Status: http.StatusUnauthorized, Detail: "the token is not valid"}
	}
	return u, nil
}

// localHost reports whether a Host header names this machine by a name that does not depend on a DNS server.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Tokens are the users of a file. It is safe for concurrent use.
type Tokens struct {
	users map[[sha256.Size]byte]User // by the hash of the token, so that the time of a lookup does not depend on the number of correct characters
}

// minToken is the minimum number of characters of a token, so that it cannot be guessed.
const minToken = 16

// ReadTokens reads a file of tokens. Each line contains a token of at least 16 characters, a role (viewer, operator or admin)
// and the name of the user, separated by white space. Empty lines and lines that begin with # are skipped. Errors contain the number of the
// line and never the token.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{users: make(map[[sha256.Size]byte]User)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("access: tokens: line %d: must have the fields token, role and name (got %d fields)", n, len(fields))
		}
		role, known := parseRole(fields[1])
		if !known {
			return nil, fmt.Errorf("access: tokens: line %d: the role must be viewer, operator or admin", n)
		}
		if len(fields[0]) < minToken {
			return nil, fmt.Errorf("access: tokens: line %d: the token must have at least %d characters (got %d)", n, minToken, len(fields[0]))
		}
		sum := sha256.Sum256([]byte(fields[0]))
		if _, twice := t.users[sum]; twice {
			return nil, fmt.Errorf("access: tokens: line %d: the token is a duplicate", n)
		}
		t.users[sum] = User{Name: fields[2], Role: role}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("access: tokens: %w", err)
	}
	if len(t.users) == 0 {
		return nil, errors.New("access: tokens: the file names no user")
	}
	return t, nil
}

// Find returns the user of a token.
func (t *Tokens) Find(token string) (User, bool) {
	u, known := t.users[sha256.Sum256([]byte(token))]
	return u, known
}
