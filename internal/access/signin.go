package access

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// SignInDone is the path to which the issuer redirects a browser. It must be registered for the client at the issuer.
const SignInDone = "/login/done"

const (
	signInCookie = "pawl_signin"
	signInTime   = 10 * time.Minute
	maxCookie    = 3800 // maximum bytes of a token in a cookie
	maxBack      = 2000 // maximum bytes of the path to return to, in a cookie
)

// SignsIn reports whether browsers can sign in at the issuer.
func (o *OIDC) SignsIn() bool { return o != nil && o.cfg.Client != "" }

// SignIn redirects a browser to the issuer, by the authorization code flow with PKCE. SignedIn completes the sign-in. The state of the sign-in
// is in a cookie, so any process at the same address can complete it. back is the path of this server to return to; a path that is too long
// for the cookie is dropped. The error is a *Refusal.
func (o *OIDC) SignIn(w http.ResponseWriter, r *http.Request, back string) error {
	c, err := o.client(r)
	if err != nil {
		return err
	}
	if len(back) > maxBack {
		back = "/"
	}
	state, nonce, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	setSignIn(w, r, strings.Join([]string{state, nonce, verifier, base64.RawURLEncoding.EncodeToString([]byte(back))}, "."), signInTime)
	http.Redirect(w, r, c.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), http.StatusSeeOther) //nolint:gosec // the endpoint is published by the issuer
	return nil
}

// SignedIn completes the sign-in of a browser that the issuer has redirected. It returns a token that fits into a cookie, and the path that
// was passed to SignIn. The error is a *Refusal.
func (o *OIDC) SignedIn(w http.ResponseWriter, r *http.Request) (token, back string, _ error) {
	again := func(detail string) error {
		return &Refusal{Status: http.StatusUnauthorized, Detail: detail, Do: "sign in again"}
	}
	kept, err := r.Cookie(signInCookie)
	if err != nil {
		return "", "", again("this browser has not begun to sign in, or took longer than 10 minutes")
	}
	setSignIn(w, r, "", -time.Second)
	parts := strings.Split(kept.Value, ".")
	if len(parts) != 4 || subtle.ConstantTimeCompare([]byte(parts[0]), []byte(r.FormValue("state"))) != 1 {
		return "", "", again("the answer of the issuer is to another sign-in")
	}
	path, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil || !localPath(string(path)) {
		path = []byte("/")
	}
	if refused := r.FormValue("error"); refused != "" {
		return "", "", again(fmt.Sprintf("the issuer has refused: %.200q %.400q", refused, r.FormValue("error_description")))
	}
	c, err := o.client(r)
	if err != nil {
		return "", "", err
	}
	ctx := context.WithValue(r.Context(), oauth2.HTTPClient, &http.Client{Timeout: issuerTimeout})
	got, err := c.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(parts[2]))
	if err != nil {
		return "", "", again("the issuer has not given a token")
	}
	id, _ := got.Extra("id_token").(string)
	t, err := o.verify(r.Context(), id)
	if err != nil {
		return "", "", err
	}
	if t.Nonce != parts[1] {
		return "", "", again("the token is of another sign-in")
	}
	token, err = o.withRole(r.Context(), t.Subject, id, got.AccessToken)
	return token, string(path), err
}

// withRole returns the token with a role. Many issuers put roles only into access tokens.
func (o *OIDC) withRole(ctx context.Context, subject, id, access string) (string, error) {
	_, err := o.user(ctx, id)
	token := id
	if refused, is := errors.AsType[*Refusal](err); is && refused.Status == http.StatusForbidden && looksSigned(access) {
		if t, wrong := o.verify(ctx, access); wrong == nil && t.Subject == subject {
			_, err = o.user(ctx, access)
			token = access
		}
	}
	if err == nil && len(token) > maxCookie {
		err = &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("the token has %d bytes; a browser keeps %d", len(token), maxCookie), Do: "have the issuer put fewer claims into it"}
	}
	return token, err
}

func (o *OIDC) client(r *http.Request) (*oauth2.Config, error) {
	by, err := o.discover(r.Context())
	if err != nil {
		return nil, &Refusal{Status: http.StatusServiceUnavailable, Detail: "the issuer of tokens cannot be reached", Do: "try again"}
	}
	c := &oauth2.Config{ClientID: o.cfg.Client, Endpoint: by.endpoint, Scopes: []string{oidc.ScopeOpenID, "profile", "email"}}
	c.RedirectURL = (&url.URL{Scheme: "http", Host: r.Host, Path: SignInDone}).String()
	if Encrypted(r) {
		c.RedirectURL = "https" + strings.TrimPrefix(c.RedirectURL, "http")
	}
	if o.cfg.SecretFile != "" {
		b, err := os.ReadFile(o.cfg.SecretFile)
		if err != nil {
			return nil, &Refusal{Status: http.StatusInternalServerError, Detail: "the file with the secret of the client cannot be read"}
		}
		c.ClientSecret = strings.TrimSpace(string(b))
	}
	return c, nil
}

// setSignIn sets the cookie of a sign-in. Its mode is SameSite=Lax, because with SameSite=Strict the redirect of the issuer would not carry it.
func setSignIn(w http.ResponseWriter, r *http.Request, value string, within time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure only with TLS, which a loopback address does not have
		Name: signInCookie, Value: value, Path: "/login", MaxAge: int(within.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: Encrypted(r),
	})
}

// Encrypted reports whether the browser uses TLS, to this server or to a proxy in front of it.
func Encrypted(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// localPath reports whether a text is a path of this server. Other redirects are refused.
func localPath(path string) bool {
	u, err := url.Parse(path)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.Contains(path, `\`)
}
