package access

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDCConfig configures an issuer of tokens.
type OIDCConfig struct {
	Issuer    string // URL; OpenID Connect Discovery finds its keys
	Audience  string // required audience of a token
	RoleClaim string // a claim, or a path such as realm_access.roles; default "roles"

	Client     string // client id with which browsers sign in; empty: they cannot
	SecretFile string // file with the secret of the client, read at each sign-in; empty: it has none
}

const (
	issuerTimeout = 5 * time.Second
	issuerRetry   = 5 * time.Second // backoff after a failed discovery
	maxUserName   = 200             // bytes of a name in histories and in the log
)

// OIDC authenticates users by tokens that an issuer has signed. It is safe for concurrent use.
type OIDC struct {
	cfg OIDCConfig

	mu     sync.Mutex
	issuer *issuer // nil before the first successful discovery
	tried  time.Time
	failed error
}

// issuer is the published configuration of an issuer.
type issuer struct {
	verifier *oidc.IDTokenVerifier
	endpoint oauth2.Endpoint
}

// NewOIDC returns an OIDC. The issuer is contacted when the first token arrives.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	if cfg.Issuer == "" || cfg.Audience == "" {
		return nil, fmt.Errorf("access: OIDC: issuer %q and audience %q: both are required", cfg.Issuer, cfg.Audience)
	}
	if cfg.RoleClaim == "" {
		cfg.RoleClaim = "roles"
	}
	return &OIDC{cfg: cfg}, nil
}

// discover returns the published configuration of the issuer. It requests it once, and after a failure at most every 5 s.
func (o *OIDC) discover(ctx context.Context) (*issuer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.issuer != nil || o.failed != nil && time.Since(o.tried) < issuerRetry {
		return o.issuer, o.failed
	}
	// The client must outlive this request: when a token is signed with an unknown key, it fetches the keys again.
	client := oidc.ClientContext(context.WithoutCancel(ctx), &http.Client{Timeout: issuerTimeout})
	p, err := oidc.NewProvider(client, o.cfg.Issuer)
	o.tried, o.failed = time.Now(), err
	if err == nil {
		o.issuer = &issuer{p.VerifierContext(client, &oidc.Config{SkipClientIDCheck: true}), p.Endpoint()} // verify checks the audience
	}
	return o.issuer, err
}

// verify checks the signature, the time and the audience of a token. The error is a *Refusal.
func (o *OIDC) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	by, err := o.discover(ctx)
	if err != nil {
		return nil, &Refusal{Status: http.StatusServiceUnavailable, Detail: "the issuer of tokens cannot be reached", Do: "repeat the request"}
	}
	t, err := by.verifier.Verify(ctx, token)
	if err != nil || !slices.Contains(t.Audience, o.cfg.Audience) && (o.cfg.Client == "" || !slices.Contains(t.Audience, o.cfg.Client)) {
		return nil, &Refusal{Status: http.StatusUnauthorized, Detail: "the token is not valid"}
	}
	return t, nil
}

// user returns the user of a token. The error is a *Refusal.
func (o *OIDC) user(ctx context.Context, token string) (User, error) {
	t, err := o.verify(ctx, token)
	if err != nil {
		return User{}, err
	}
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return User{}, &Refusal{Status: http.StatusUnauthorized, Detail: "the token is not valid"}
	}
	u := User{Name: nameOf(claims, t.Subject), Role: roleOf(claims, o.cfg.RoleClaim)}
	if u.Role == 0 {
		return User{}, &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("the token of %s has no role in its claim %s", u.Name, o.cfg.RoleClaim), Do: "it needs viewer, operator or admin"}
	}
	return u, nil
}

// nameOf returns the name of a user in histories: a human-readable one, if there is one, and otherwise the subject.
func nameOf(claims map[string]any, subject string) string {
	name := subject
	for _, claim := range []string{"preferred_username", "email"} {
		if s, is := claims[claim].(string); is && s != "" {
			name = s
			break
		}
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > maxUserName {
		name = strings.ToValidUTF8(name[:maxUserName], "")
	}
	return name
}

// roleOf returns the highest role in a claim. The claim is a string or a list of strings, which are names of roles, optionally with the
// prefix "pawl-" or "pawl:".
func roleOf(claims map[string]any, path string) (highest Role) {
	value := any(claims)
	if whole, there := claims[path]; there { // the name of a claim may contain dots, such as a URL
		value = whole
	} else {
		for part := range strings.SplitSeq(path, ".") {
			m, _ := value.(map[string]any)
			value = m[part]
		}
	}
	list, many := value.([]any)
	if !many {
		list = []any{value}
	}
	for _, v := range list {
		name, _ := v.(string)
		name = strings.TrimPrefix(strings.TrimPrefix(name, "pawl-"), "pawl:")
		if r, known := parseRole(name); known {
			highest = max(highest, r)
		}
	}
	return highest
}

// looksSigned reports whether a token is one of an issuer (a JWS), and not one of a file.
func looksSigned(token string) bool {
	head, _, found := strings.Cut(token, ".")
	return found && strings.HasPrefix(head, "ey") && strings.Count(token, ".") == 2
}
