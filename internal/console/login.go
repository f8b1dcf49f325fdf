package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pawlrun/pawl/internal/access"
)

// login shows the form for a token. A user who is signed in needs none.
func (c *console) login(w http.ResponseWriter, r *http.Request) {
	switch err := c.stranger(r); {
	case err == nil:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case problemOf(err).Status != http.StatusUnauthorized:
		c.fail(w, r, access.User{}, problemOf(err))
	default:
		c.loginForm(w, r, 0, "")
	}
}

// loginPath is where a browser without a token is sent: to the issuer, which goes on without a question while its session lasts, or to the form
// of a token.
func (c *console) loginPath(r *http.Request) string {
	if !c.Access.OIDC.SignsIn() {
		return "/login"
	}
	to := url.Values{"to": {r.URL.RequestURI()}}.Encode()
	if c.Access.Tokens != nil || r.Header.Get("Pawl-Part") != "" { // the script follows no redirect to another site
		return "/login?" + to
	}
	return "/login/begin?" + to
}

// stranger returns why the user is not signed in; nil: it is.
func (c *console) stranger(r *http.Request) error {
	_, err := c.Access.User(r, access.Viewer, "this page")
	return err
}

// loginData is the form of a token, and the way to the issuer.
type loginData struct {
	Problem string
	Tokens  bool   // there is a file of them, or an issuer at which no one can sign in
	Begin   string // address; empty: there is none
}

func (c *console) loginForm(w http.ResponseWriter, r *http.Request, status int, problem string) {
	d := loginData{Problem: problem, Tokens: c.Access.Tokens != nil || !c.Access.OIDC.SignsIn()}
	if c.Access.OIDC.SignsIn() {
		d.Begin = "/login/begin?" + url.Values{"to": {cmp.Or(r.FormValue("to"), "/")}}.Encode()
	}
	c.render(w, r, access.User{}, view{template: "login", title: "Sign in", status: status, data: d})
}

// beginSignIn sends the browser to the issuer.
func (c *console) beginSignIn(w http.ResponseWriter, r *http.Request) {
	err := c.stranger(r)
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

// endSignIn keeps the token of a user whom the issuer has sent back. Its answer is a page that goes on, for a redirect from another site
// does not carry the cookie.
func (c *console) endSignIn(w http.ResponseWriter, r *http.Request) {
	if !c.Access.OIDC.SignsIn() {
		http.NotFound(w, r)
		return
	}
	if err := c.stranger(r); err != nil && problemOf(err).Status != http.StatusUnauthorized {
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

// signIn keeps a valid token in a cookie that scripts cannot read and that other sites' requests do not carry.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("token")
	probe := r.Clone(r.Context())
	probe.Header.Del("Cookie")
	probe.Header.Set("Authorization", "Bearer "+token)
	if err := c.stranger(probe); err != nil {
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
	return &http.Cookie{ //nolint:gosec // Secure only where there is TLS: on a loopback address there is none
		Name: access.Cookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: access.Encrypted(r),
	}
}
