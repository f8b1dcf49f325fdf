package access

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// A token of an issuer is accepted with the required audience and within its validity, and its user has the role in the claim. Tokens of a
// file are also accepted. Invalid tokens are refused without the cause.
func TestTokensOfAnIssuerAreVerified(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.RS256}}}
	srv := httptest.NewServer(issuer)
	t.Cleanup(srv.Close)
	issuer.SetIssuer(srv.URL)
	o, err := NewOIDC(OIDCConfig{Issuer: srv.URL, Audience: "pawl", RoleClaim: "realm_access.roles"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := ReadTokens(strings.NewReader("viewer-token-0123456789 viewer ada\n"))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(by *rsa.PrivateKey, change map[string]any) string {
		claims := map[string]any{
			"iss": srv.URL, "aud": "pawl", "sub": "u-1", "preferred_username": "grace", "exp": time.Now().Add(time.Hour).Unix(),
			"realm_access": map[string]any{"roles": []string{"viewer", "pawl-operator", "offline"}},
		}
		maps.Copy(claims, change)
		b, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		return oidctest.SignIDToken(by, "k", oidc.RS256, string(b))
	}
	roles := func(v any) map[string]any { return map[string]any{"realm_access": map[string]any{"roles": v}} }
	for name, x := range map[string]struct {
		token  string
		need   Role
		status int
		user   string
	}{
		"operator":          {sign(key, nil), Operator, 0, "grace"},
		"too little":        {sign(key, nil), Admin, 403, ""},
		"admin, one text":   {sign(key, roles("pawl:admin")), Admin, 0, "grace"},
		"no role":           {sign(key, roles([]string{"root"})), Viewer, 403, ""},
		"no readable name":  {sign(key, map[string]any{"preferred_username": ""}), Viewer, 0, "u-1"},
		"a hostile name":    {sign(key, map[string]any{"preferred_username": "a\nb"}), Viewer, 0, "a?b"},
		"another audience":  {sign(key, map[string]any{"aud": "shop"}), Viewer, 401, ""},
		"expired":           {sign(key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), Viewer, 401, ""},
		"another issuer":    {sign(key, map[string]any{"iss": "https://evil.example"}), Viewer, 401, ""},
		"another key":       {sign(other, nil), Viewer, 401, ""},
		"no signature":      {"eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", Viewer, 401, ""},
		"of the file":       {"viewer-token-0123456789", Viewer, 0, "ada"},
		"of no one's file":  {"viewer-token-0123456780", Viewer, 401, ""},
		"none, but a token": {"", Viewer, 401, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+x.token)
		u, err := (Policy{OIDC: o, Tokens: file}).User(r, x.need, "this")
		refused, _ := errors.AsType[*Refusal](err)
		switch {
		case x.status == 0 && (err != nil || u.Name != x.user):
			t.Errorf("%s: %+v, %v", name, u, err)
		case x.status != 0 && (refused == nil || refused.Status != x.status):
			t.Errorf("%s: %+v, %v, want %d", name, u, err, x.status)
		}
	}
	srv.Close()
	away, err := NewOIDC(OIDCConfig{Issuer: srv.URL, Audience: "pawl"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := away.user(t.Context(), sign(key, nil)); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("issuer away: %v", err)
	}
	if _, err := NewOIDC(OIDCConfig{Issuer: srv.URL}); err == nil {
		t.Error("an issuer without an audience is accepted")
	}
}
