package access

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzUser authorizes requests with any headers, on a network address with a file of tokens and on a loopback address without users. A refusal
// is a *Refusal of the request. Only a token of the file makes a user, and only a name of this machine reaches a loopback address.
func FuzzUser(f *testing.F) {
	const token = "operator-token-01234567"
	tokens, err := ReadTokens(strings.NewReader(token + " operator ann\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("localhost:7295", "Bearer "+token, "", "")
	f.Add("[::1]", "", Cookie+"="+token, "http://evil.example")
	f.Add("127.0.0.1.evil.example", "Bearer  "+token, Cookie+`="`, "null")
	f.Add("[[::1]]:x", "bearer x", "=;=", "")
	f.Add("[fe80::1%25lo]", "Bearer eyJ.a.b", "", "")
	f.Fuzz(func(t *testing.T, host, authorization, cookie, origin string) {
		r := &http.Request{Method: http.MethodPost, Host: host, Header: http.Header{"Authorization": {authorization}, "Cookie": {cookie}, "Origin": {origin}}}
		r = r.WithContext(t.Context())
		for _, p := range []Policy{{Tokens: tokens}, {Loopback: true}, {}} {
			u, err := p.User(r, Viewer, "listInstances")
			refusal, is := errors.AsType[*Refusal](err)
			if err != nil && (!is || refusal.Status < 400 || refusal.Status >= 500 || u != User{}) {
				t.Errorf("%+v, %v", u, err)
			}
			if err != nil {
				continue
			}
			if p.Tokens != nil && (u.Name != "ann" || u.Role != Operator || !strings.Contains(authorization+cookie, token)) {
				t.Errorf("%q and %q make the user %+v", authorization, cookie, u)
			}
			if !p.Users() && !p.Loopback || p.Loopback && !localHost(host) {
				t.Errorf("host %q is served", host)
			}
		}
	})
}

// FuzzClaims reads the user in any claims of a token. The name is UTF-8 of a bounded length without control characters, and a role is one that
// the claim names.
func FuzzClaims(f *testing.F) {
	for _, claims := range []string{
		`{"roles":["pawl-admin","x"],"email":"ann@example.org"}`, `{"realm_access":{"roles":"viewer"}}`, `{"roles":[["admin"],7,null]}`, `{"roles":{"admin":true}}`, `{"realm_access.roles":"operator","realm_access":{"roles":"admin"}}`,
		`{"preferred_username":"\u0000\ud800"}`, `{"preferred_username":"` + strings.Repeat("ä", 500) + `"}`, `null`,
	} {
		f.Add(claims, "roles", "subject")
		f.Add(claims, "realm_access.roles", "\xff")
	}
	f.Fuzz(func(t *testing.T, text, path, subject string) {
		var claims map[string]any
		if json.Unmarshal([]byte(text), &claims) != nil {
			return
		}
		name := nameOf(claims, subject)
		if len(name) > maxUserName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q is the name %q", text, name)
		}
		if role := roleOf(claims, path); role < 0 || role > Admin || role > 0 && !strings.Contains(text, role.String()) && !strings.Contains(text, `\u`) {
			t.Errorf("%q has the role %s", text, role)
		}
	})
}

// FuzzReadTokens reads any file of tokens. An error never contains a token, and every user is found by the token of its line.
func FuzzReadTokens(f *testing.F) {
	for _, file := range []string{"viewer-token-0123456789 viewer ann\n# c\n\n", "short viewer a", "a b", "operator-token-01234567 operator a\noperator-token-01234567 admin b", strings.Repeat("x", 70_000), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff admin a"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		tokens, err := ReadTokens(strings.NewReader(file))
		for line := range strings.Lines(file) {
			fields := strings.Fields(line)
			if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
				continue
			}
			if err != nil {
				if len(fields[0]) >= minToken && strings.Contains(err.Error(), fields[0]) {
					t.Errorf("the error contains a token: %v", err)
				}
				continue
			}
			if u, known := tokens.Find(fields[0]); !known || u.Name != fields[2] || u.Role.String() != fields[1] {
				t.Errorf("%q finds %+v", line, u)
			}
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
