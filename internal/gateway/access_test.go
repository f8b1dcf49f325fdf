package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/client"
)

const tokenFile = `
# roles
viewer-token-0123456789 viewer ada
operator-token-01234567 operator bob
admin-token-01234567890 admin eve
`

func TestOperationRequiresItsRole(t *testing.T) {
	tokens, err := access.ReadTokens(strings.NewReader(tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, func(request.Request) (request.Reply, error) {
		return nil, &request.Problem{Code: request.ProblemNotFound, Message: "nothing"}
	})
	var log bytes.Buffer
	handler := func(a access.Policy) *Handler {
		h := New(Config{Client: func() *client.Client { return c }, Access: a, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		t.Cleanup(h.Close)
		return h
	}
	closed, loopback, byTokens := handler(access.Policy{}), handler(access.Policy{Loopback: true}), handler(access.Policy{Tokens: tokens})
	byToken := map[access.Role]string{access.Viewer: "viewer-token-0123456789", access.Operator: "operator-token-01234567", access.Admin: "admin-token-01234567890"}
	for _, o := range operations() {
		path := strings.NewReplacer("{id}", "i-1", "{ref}", "a", "{name}", "e", "{level}", "global").Replace(o.path)
		status := func(h *Handler, headers ...string) int {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // the call of a permitted operation fails immediately
			r := httptest.NewRequestWithContext(ctx, o.method, path, nil)
			r.Host = "pawl.example"
			if h == loopback {
				r.Host = "127.0.0.1:7295"
			}
			for i := 0; i < len(headers); i += 2 {
				if headers[i] == "Host" {
					r.Host = headers[i+1]
				}
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		want := func(what string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s %s, %s: %d, want %d", o.method, path, what, got, want)
			}
		}
		want("network address without tokens", status(closed), http.StatusForbidden)
		want("without a token", status(byTokens), http.StatusUnauthorized)
		want("with a wrong token", status(byTokens, "Authorization", "Bearer viewer-token-0123456780"), http.StatusUnauthorized)
		want("another host name on loopback", status(loopback, "Host", "evil.example"), http.StatusMisdirectedRequest)
		if o.method != http.MethodGet {
			want("another origin", status(loopback, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
			want("another origin, old browser", status(loopback, "Origin", "https://evil.example"), http.StatusForbidden)
		}
		log.Reset()
		changes := 0
		for role, token := range byToken {
			if o.role > access.Viewer && role >= o.role {
				changes++
			}
			refused := status(byTokens, "Authorization", "Bearer "+token) == http.StatusForbidden
			if refused != (role < o.role) {
				t.Errorf("%s %s, role %s: rejected: %t", o.method, path, role, refused)
			}
		}
		if lines := strings.Count(log.String(), `msg="change requested over HTTP" operation=`+o.id+" "); lines != changes {
			t.Errorf("%s %s: %d lines of the audit log, want %d: %s", o.method, path, lines, changes, log.String())
		}
	}
}

// Trap: a rejection that advises to repeat the request.
func TestRejectionOfAUserIncludesAdvice(t *testing.T) {
	tokens, err := access.ReadTokens(strings.NewReader(tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	h := New(Config{Client: func() *client.Client { return nil }, Access: access.Policy{Tokens: tokens}})
	t.Cleanup(h.Close)
	for header, want := range map[[2]string]string{
		{"Authorization", "Bearer viewer-token-0123456789"}: "use a token whose role permits it",
		{"Sec-Fetch-Site", "cross-site"}:                    "send it from a page of this server",
		{"Authorization", "Bearer nothing"}:                 "send a token that is valid",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/instances", nil)
		r.Header.Set(header[0], header[1])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"do":"`+want) {
			t.Errorf("%v: %s", header, w.Body)
		}
	}
}
