package console_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/gateway"
	"github.com/pawlrun/pawl/pkg/client"
)

// issuer is an OpenID Connect issuer that signs users in without interaction. Its fields determine its next response.
type issuer struct {
	testing.TB
	oidctest.Server

	url     string
	key     *rsa.PrivateKey
	request url.Values // parameters of the latest sign-in

	id, access map[string]any // additional claims; nil: no access token
	state      string         // replaces the requested state
	refuses    string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	i := &issuer{TB: t, key: key, Server: oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.RS256}}}}
	mux := http.NewServeMux()
	mux.Handle("/", &i.Server)
	mux.HandleFunc("GET /auth", i.auth)
	mux.HandleFunc("POST /token", i.token)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	i.url = srv.URL
	i.SetIssuer(srv.URL)
	return i
}

func (i *issuer) auth(w http.ResponseWriter, r *http.Request) {
	i.request = r.URL.Query()
	answer := url.Values{"state": {i.request.Get("state")}, "code": {"code-1"}}
	if i.state != "" {
		answer.Set("state", i.state)
	}
	if i.refuses != "" {
		answer.Set("error", i.refuses)
	}
	http.Redirect(w, r, i.request.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	id, secret, _ := r.BasicAuth()
	if r.PostFormValue("code") != "code-1" || base64.RawURLEncoding.EncodeToString(sum[:]) != i.request.Get("code_challenge") || id != "console" || secret != "client-secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	sign := func(more map[string]any) string {
		claims := map[string]any{
			"iss": i.url, "aud": "console", "sub": "u-1", "preferred_username": "grace", "exp": time.Now().Add(time.Hour).Unix(), "nonce": i.request.Get("nonce"),
		}
		maps.Copy(claims, more)
		b, err := json.Marshal(claims)
		check(i.TB, err)
		return oidctest.SignIDToken(i.key, "k", oidc.RS256, string(b))
	}
	got := map[string]any{"token_type": "Bearer", "access_token": "opaque", "id_token": sign(i.id)}
	if i.access != nil {
		got["access_token"] = sign(i.access)
	}
	w.Header().Set("Content-Type", "application/json")
	check(i.TB, json.NewEncoder(w).Encode(got))
}

// A browser without a token is redirected to the issuer and back to its page, with a token in a cookie that other sites do
// not send. A response that does not belong to a sign-in of this browser, or that has no role, signs no user in.
func TestBrowsersSignInAtTheIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(file, []byte("client-secret\n"), 0o600))
	o, err := access.NewOIDC(access.OIDCConfig{Issuer: i.url, Audience: "pawl", RoleClaim: "roles", Client: "console", SecretFile: file})
	check(t, err)
	handler := gateway.New(gateway.Config{Client: func() *client.Client { return nil }, Access: access.Policy{OIDC: o}})
	t.Cleanup(handler.Close)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	at, err := url.Parse(srv.URL + access.SignInDone)
	check(t, err)
	roles := map[string]any{"roles": "operator"}
	with := func(more map[string]any) map[string]any { m := maps.Clone(roles); maps.Copy(m, more); return m }
	for name, x := range map[string]struct {
		id, access     map[string]any
		state, refuses string
		path           string
		status         int
		has            string
	}{
		"role in the id token":     {id: roles, path: "/instances?where=id+%3D+x", status: 200, has: "0; url=/instances?where=id+%3D+x"},
		"role in the access token": {access: with(map[string]any{"aud": []string{"pawl"}}), path: "/", status: 200, has: "0; url=/"},
		"a path to another site":   {id: roles, path: "/login/begin?to=//evil.example/", status: 200, has: "0; url=/"},
		"a path that is too long":  {id: roles, path: "/login/begin?to=/" + strings.Repeat("x", 3000), status: 200, has: "0; url=/"},
		"a path with a scheme":     {id: roles, path: "/login/begin?to=https://evil.example/", status: 200, has: "0; url=/"},
		"no role":                  {path: "/", status: 403, has: "no role"},
		"access of another user":   {access: with(map[string]any{"sub": "u-2"}), path: "/", status: 403, has: "no role"},
		"access for another":       {access: with(map[string]any{"aud": "shop"}), path: "/", status: 403, has: "no role"},
		"id for another":           {id: with(map[string]any{"aud": "shop"}), path: "/", status: 401, has: "not valid"},
		"id of another sign-in":    {id: with(map[string]any{"nonce": "other"}), path: "/", status: 401, has: "another sign-in"},
		"another state":            {id: roles, state: "other", path: "/", status: 401, has: "another sign-in"},
		"refused":                  {id: roles, refuses: "access_denied", path: "/", status: 401, has: "access_denied"},
		"a token too large":        {id: with(map[string]any{"x": strings.Repeat("x", 4000)}), path: "/", status: 403, has: "a browser keeps"},
		"not begun":                {id: roles, path: "/login/done?state=x&code=code-1", status: 401, has: "has not begun"},
	} {
		i.id, i.access, i.state, i.refuses = x.id, x.access, x.state, x.refuses
		jar, err := cookiejar.New(nil)
		check(t, err)
		browser := &http.Client{Jar: jar}
		get := func(path string) (*http.Response, string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
			check(t, err)
			w, err := browser.Do(r)
			check(t, err)
			defer func() { _ = w.Body.Close() }()
			b, err := io.ReadAll(w.Body)
			check(t, err)
			return w, string(b)
		}
		w, body := get(x.path)
		shown := w.Header.Get("Refresh")
		if x.status != http.StatusOK {
			shown = body
		}
		if w.StatusCode != x.status || !strings.Contains(shown, x.has) || x.status == http.StatusOK && (strings.Contains(shown, "evil") || len(shown) > 1000) {
			t.Errorf("%s: %d, want %d with %q: %s", name, w.StatusCode, x.status, x.has, shown)
		}
		set := strings.Join(w.Header.Values("Set-Cookie"), "\n")
		if signed := strings.Contains(set, access.Cookie+"="); signed != (x.status == http.StatusOK) || signed && (!strings.Contains(set, "SameSite=Strict") || !strings.Contains(set, "HttpOnly")) {
			t.Errorf("%s: cookies %q", name, set)
		}
		if kept := jar.Cookies(at); slices.ContainsFunc(kept, func(c *http.Cookie) bool { return c.Name != access.Cookie }) {
			t.Errorf("%s: the browser keeps %v", name, kept)
		}
		browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if w, _ := get("/workers"); (w.StatusCode == http.StatusServiceUnavailable) != (x.status == http.StatusOK) { // the namespace is not connected
			t.Errorf("%s: the next page is answered with %d", name, w.StatusCode)
		}
		browser.CloseIdleConnections()
	}
}

// A browser at an issuer of another site returns signed in: it sends the session cookie after the response of the issuer.
func TestBrowserReturnsSignedInFromAnotherSite(t *testing.T) {
	i := newIssuer(t)
	i.url = strings.Replace(i.url, "127.0.0.1", "localhost", 1)
	i.SetIssuer(i.url)
	i.id = map[string]any{"roles": "viewer"}
	file := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(file, []byte("client-secret"), 0o600))
	o, err := access.NewOIDC(access.OIDCConfig{Issuer: i.url, Audience: "pawl", Client: "console", SecretFile: file})
	check(t, err)
	handler := gateway.New(gateway.Config{Client: func() *client.Client { return nil }, Access: access.Policy{OIDC: o}})
	t.Cleanup(handler.Close)
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	b := newBrowser(&harness{TB: t, url: srv.URL})
	b.open("/workers?of=all")
	b.run(visible(".pill.bad")) // the namespace is not connected
	if got := b.eval(`location.pathname + location.search + " " + document.querySelector("main").innerText`); !strings.HasPrefix(got, "/workers?of=all ") || !strings.Contains(got, "not connected") {
		t.Error(got)
	}
}
