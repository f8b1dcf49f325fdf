package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pawlrun/pawl/internal/access"
)

// login shows the form for a token, or redirects a user who is already signed in.
func (c *console) login(w http.ResponseWriter, r *http.Request) {
	switch err := c.requireSignedIn(r); {
	case err == nil:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case problemOf(err).Status != http.StatusUnauthorized:
		c.fail(w, r, access.User{}, problemOf(err))
	default:
		c.loginForm(w, r, 0, "")
	}
}

// loginPath returns the address that a browser without a token is sent to: the form for a token, or the OpenID Connect
// issuer, which redirects back without interaction while the user's session lasts.
func (c *console) loginPath(r *http.Request) string {
	if !c.Access.OIDC.SignsIn() {
		return "/login"
	}
	to := url.Values{"to": {r.URL.RequestURI()}}.Encode()
	if c.Access.Tokens != nil || r.Header.Get("Pawl-Part") != "" { // the script does not follow redirects to another site
		return "/login?" + to
	}
	return "/login/begin?" + to
}

// requireSignedIn returns an error unless the user is signed in.
func (c *console) requireSignedIn(r *http.Request) error {
	_, err := c.Access.User(r, access.Viewer, "this page")
	return err
}

// loginData is the form for a token, and the link to the issuer.
type loginData struct {
	Problem string
	Tokens  bool   // there is a tokens file, or an issuer that does not sign users in
	Begin   string // address; empty: no sign-in at an issuer
}

func (c *console) loginForm(w http.ResponseWriter, r *http.Request, status int, problem string) {
	d := loginData{Problem: problem, Tokens: c.Access.Tokens != nil || !c.Access.OIDC.SignsIn()}
	if c.Access.OIDC.SignsIn() {
		d.Begin = "/login/begin?" + url.Values{"to": {cmp.Or(r.FormValue("to"), "/")}}.Encode()
	}
	c.render(w, r, access.User{}, view{template: "login", title: "Sign in", status: status, data: d})
}

// beginSignIn redirects the browser to the issuer.
func (c *console) beginSignIn(w http.ResponseWriter, r *http.Request) {
	err := c.requireSignedIn(r)
	switch {
	case !c.Access.OIDC.SignsIn() || err == nil:
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	case problemOf(err).Status == http.StatusUnauthorized:
		err = c.Access.OIDC.SignIn(w, r, r.FormValue("to"))
	}
	if err != nil {
		c.fail(w, r, access.User{}, problemOf(err))
	}
}

// endSignIn stores the token of a user that the issuer has redirected back. It answers with a page that reloads instead of a
// redirect, because requests of a redirect from another site do not include the cookie.
func (c *console) endSignIn(w http.ResponseWriter, r *http.Request) {
	if !c.Access.OIDC.SignsIn() {
		http.NotFound(w, r)
		return
	}
	if err := c.requireSignedIn(r); err != nil && problemOf(err).Status != http.StatusUnauthorized {
		c.fail(w, r, access.User{}, problemOf(err))
		return
	}
	token, back, err := c.Access.OIDC.SignedIn(w, r)
	if err != nil {
		c.fail(w, r, access.User{}, problemOf(err))
		return
	}
	http.SetCookie(w, sessionCookie(r, token))
	c.render(w, r, access.User{}, view{template: "signed-in", title: "Signed in", refresh: "0; url=" + back, data: back})
}

// signIn stores a valid token in a cookie that scripts cannot read and that requests from other sites do not include.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("token")
	probe := r.Clone(r.Context())
	probe.Header.Del("Cookie")
	probe.Header.Set("Authorization", "Bearer "+token)
	if err := c.requireSignedIn(probe); err != nil {
		c.loginForm(w, r, http.StatusUnauthorized, fmt.Sprintf("Not signed in: %v.", err))
		return
	}
	http.SetCookie(w, sessionCookie(r, token))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (c *console) signOut(w http.ResponseWriter, r *http.Request) {
	gone := sessionCookie(r, "") //nolint:gosec // its attributes are set there
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func sessionCookie(r *http.Request, token string) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure only with TLS, which a loopback address does not have
		Name: access.Cookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: access.Encrypted(r),
	}
}
