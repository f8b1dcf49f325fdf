package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	dialTimeout    = 10 * time.Second
	maxHeaderBytes = 64 << 10
	idleConns      = 64 // idle connections to one host that are kept for later requests
)

// endpoint returns the function that calls the endpoint of the activity.
func (a Activity) endpoint() run {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if !a.AllowPrivate {
		dialer.Control = public
	}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		req, err := a.request(ctx, in)
		if err != nil {
			return nil, &failure{error: err, final: true}
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, a.unreachable(ctx, err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
		if err != nil {
			return nil, a.unreachable(ctx, err)
		}
		if resp.StatusCode/100 == 2 {
			return result(body, len(body) > maxBytes, a.place())
		}
		f := &failure{error: fmt.Errorf("%s: %s: %s", a.place(), resp.Status, text.Shorten(string(body), maxQuote)), final: !repeatable(resp.StatusCode)}
		if !f.final {
			f.after = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		}
		return nil, f.describe(body)
	}
}

func (a Activity) request(ctx context.Context, in json.RawMessage) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.HTTP, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	info := pawl.Info(ctx)
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Idempotency-Key", info.Key)
	h.Set("Pawl-Activity", info.Name)
	h.Set("Pawl-Instance", info.Instance)
	h.Set("Pawl-Attempt", strconv.FormatUint(uint64(info.Attempt), 10))
	for name, v := range headersOf(ctx).All() {
		if history.IsDeclared(name) {
			name = transport.HeaderDeclared + name
		}
		h.Set(name, v)
	}
	for name, v := range a.Headers {
		h.Set(name, os.ExpandEnv(v))
	}
	return req, nil
}

// headersOf returns the headers of the start. If the worker traces, the span of the worker becomes the parent.
func headersOf(ctx context.Context) (out history.Headers) {
	for name, v := range pawl.Info(ctx).Headers.All() {
		out = out.With(name, v) // drops Pawl's own headers
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		out = out.With(history.HeaderTraceparent, history.TraceContext{Trace: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags())}.String())
	}
	return out
}

// unreachable returns the failure of a request without a response. A refused address is a final failure.
func (a Activity) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // url.Error quotes the URL, which may contain secrets
	}
	return &failure{error: fmt.Errorf("%s: %w", a.place(), err), final: isRefused(err)}
}

// place returns the URL for messages, without its user and query, which may contain secrets.
func (a Activity) place() string {
	u, err := url.Parse(a.HTTP)
	if err != nil {
		return "the endpoint"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// repeatable reports whether a later request may succeed.
func repeatable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// retryAfter parses a Retry-After header, in seconds or as a date. It returns zero if there is none.
func retryAfter(v string, now time.Time) time.Duration {
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return max(0, time.Duration(s)*time.Second)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// addressError is returned for an address that is not public.
type addressError struct{ address string }

func (e *addressError) Error() string {
	return fmt.Sprintf("address %s is not public, and allow_private is not set", e.address)
}

// public is the Control function of a dialer. It checks the address that is about to be dialed, after each lookup.
func public(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(to.Addr()) {
		return &addressError{address}
	}
	return nil
}

// reserved returns the ranges that are not part of the public internet and that netip does not cover: those of RFC 6890, and those that embed
// IPv4 addresses, which a gateway may translate to private ones.
func reserved() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	// IsGlobalUnicast excludes loopback, link-local, multicast and unspecified addresses.
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved(), func(p netip.Prefix) bool { return p.Contains(a) })
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*addressError](err)
	return refused
}
