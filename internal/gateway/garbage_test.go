package gateway

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/client"
)

// No request, to any operation, causes an internal error. Every refusal is a problem that names the mistake and advises what
// to do.
func TestInvalidSettingsAreRefusedWithAdvice(t *testing.T) {
	c := newClient(t, func(request.Request) (request.Reply, error) {
		return nil, &request.Problem{Code: request.ProblemNotFound, Message: "nothing has this name"}
	})
	h := New(Config{Access: access.Policy{Loopback: true}, Client: func() *client.Client { return c }})
	t.Cleanup(h.Close)
	values := []string{
		"", "a", "7", "-1", "0", "1e400", "18446744073709551616", "true", "null", "{}", "[]", `{"a":1}`, `"`, `{"where":"status = failed","verb":"cancel"}`, "\x00", "\xff\xfe", "a b", "../..", "a/b",
		"*", ">", "a.*.b", ".", "..", "%2e", "<script>", "\u202e", strings.Repeat("[", 100_000), strings.Repeat("x", 5000), "9999-12-31T23:59:59Z", "status = ", "action:", "1ns",
		`{"orchestration":"a","input":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, `{"cron":["* * * * *"],"zone":"../../etc/passwd"}`, `{"concurrency":-1}`, `{"to":-1}`, `{"reason":7}`,
	}
	random := rand.New(rand.NewPCG(1, 2)) // deterministic
	pick := func() string { return values[random.IntN(len(values))] }
	var all []*http.Request
	for range 12 {
		for _, o := range operations() {
			if o.stream != nil {
				continue
			}
			path := o.path
			for strings.Contains(path, "{") {
				before, rest, _ := strings.Cut(path, "{")
				_, after, _ := strings.Cut(rest, "}")
				path = before + url.PathEscape(pick()) + after
			}
			q := url.Values{}
			for _, p := range o.query {
				if random.IntN(3) == 0 && p.name != "wait" {
					q.Set(p.name, pick())
				}
			}
			r := httptest.NewRequestWithContext(t.Context(), o.method, "http://localhost"+path+"?"+q.Encode(), strings.NewReader(pick()))
			r.Header.Set("Content-Type", "application/json")
			if random.IntN(4) == 0 {
				r.Header.Set([]string{"Content-Type", "Idempotency-Key", "Traceparent"}[random.IntN(3)], pick())
			}
			all = append(all, r)
		}
	}
	next := make(chan *http.Request)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for r := range next {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if err := checkAnswer(w); err != nil {
					t.Errorf("%s %.200s: %d %.200s: %v", r.Method, r.URL, w.Code, w.Body, err)
				}
			}
		})
	}
	for _, r := range all {
		next <- r
	}
	close(next)
	wg.Wait()
}

func checkAnswer(w *httptest.ResponseRecorder) error {
	if w.Code >= 300 && w.Code < 400 && w.Header().Get("Location") != "" { // redirect from a path that is not clean
		return nil
	}
	if w.Code >= http.StatusInternalServerError {
		return errors.New("internal server error")
	}
	if w.Code < http.StatusBadRequest {
		return nil
	}
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		return err
	}
	if w.Header().Get("Content-Type") != "application/problem+json" || p.Status != w.Code || p.Title == "" || p.Detail == "" || p.Do == "" {
		return errors.New("the problem is incomplete")
	}
	return nil
}
