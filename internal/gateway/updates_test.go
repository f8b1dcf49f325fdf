package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
)

// votes binds an orchestration that adds up the votes it receives as updates, until a vote of 10. Votes below 1 are
// rejected.
func votes() pawl.Binding {
	var (
		vote  = pawl.NewOrchestration[int, int]("vote")
		cast  = pawl.NewUpdate[int, int]("cast.vote")
		total = pawl.NewQuery[int, int]("total")
		few   = pawl.NewError("vote.too-few")
	)
	return vote.Do(func(ctx *pawl.Context, sum int) (int, error) {
		if err := total.Handle(ctx, func(more int) (int, error) {
			if more < 0 {
				return 0, few
			}
			return sum + more, nil
		}); err != nil {
			return 0, err
		}
		for {
			u, err := cast.Next(ctx).Get(ctx)
			switch {
			case err != nil:
				return sum, err
			case u.Input < 1:
				err = u.Reject(ctx, few)
			default:
				sum += u.Input
				err = u.Answer(ctx, sum)
			}
			if err != nil || u.Input == 10 {
				return sum, err
			}
		}
	})
}

func TestUpdateIsAnsweredRejectedAndRepeatedOverHTTP(t *testing.T) {
	h := newHarness(t)
	const start = `{"orchestration":"vote","id":"v-1","input":5,"attributes":{"tenant":"acme"},"update":{"name":"cast.vote","data":2},"wait":"1m"}`
	for range 2 { // a repeated request has no effect: it is the same start and the same update
		got := h.do(202, "POST", "/instances", start, "Idempotency-Key", "k-1")
		h.want(got, "instance", "v-1")
		h.want(got, "update", map[string]any{"instance": "v-1", "update": "cast.vote", "id": "k-1", "status": "answered", "result": 7})
	}
	h.want(h.do(200, "GET", "/instances/v-1", ""), "attributes", map[string]any{"tenant": "acme"})
	for range 2 {
		got := h.do(200, "POST", "/instances/v-1/updates/cast.vote?wait=1m", `0`, "Idempotency-Key", "k-2")
		h.want(got, "status", "rejected")
		h.want(got, "code", "vote.too-few")
	}
	h.want(h.query(200, "total", `100`), "value", 107)
	h.want(h.query(400, "total", `-1`), "detail", "query total: vote.too-few")
	h.want(h.query(409, "votes", ""), "detail", `refused: instance v-1 has no query votes; it has total`)
	h.want(h.do(202, "POST", "/instances/v-2/updates/cast.vote", `3`), "status", "open") // v-2 is not started
	h.want(h.do(200, "POST", "/instances/v-1/updates/cast.vote?wait=1m", `10`), "result", 17)
	h.want(h.do(200, "POST", "/instances/v-1/updates/cast.vote?wait=1m", `1`), "status", "ended")
	h.want(h.do(200, "POST", "/instances/v-1/updates/cast.vote?wait=1m", `10`, "Idempotency-Key", "k-1"), "result", 7) // the answer to the first request, whatever the input
	h.want(h.query(200, "total", `0`), "value", 17)
}

// query queries v-1. On a busy machine the handler may need more than 50 ms; the request is then repeated.
func (h *harness) query(status int, name, input string) (object map[string]any) {
	h.t.Helper()
	poll.Until(h.t, time.Minute, "query "+name, func() bool {
		var got int
		got, object = h.try("POST", "/instances/v-1/queries/"+name, input)
		return got == status && !strings.HasSuffix(fmt.Sprint(object["detail"]), "within 50ms")
	})
	return object
}

func TestInvalidUpdateIsRefusedWithItsReason(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		status                  int
		path, body, key, detail string
	}{
		{400, "/instances/v-1/updates/cast.vote", `1`, "#1", `update id "#1", want 1 to 200 bytes of text that do not begin with #`},
		{400, "/instances/v-1/updates/cast.vote", `1`, strings.Repeat("k", 201), "want 1 to 200 bytes"},
		{400, "/instances/v-1/updates/cast..vote", `1`, "", `bad name "cast..vote"`},
		{400, "/instances/v-1/updates/cast.vote?deadline=-3s", `1`, "", "deadline must be a duration above zero"},
		{400, "/instances/v-1/updates/cast.vote", `{`, "", "the body is not JSON"},
		{413, "/instances/v-1/updates/cast.vote", `"` + strings.Repeat("x", 600<<10) + `"`, "", "too large"},
		{400, "/instances", `{"orchestration":"vote","update":{"name":"cast.vote"},"event":{"name":"e"}}`, "", "a start with an update has no event"},
		{400, "/instances", `{"orchestration":"vote","update":{"name":"cast.vote"},"id_reuse":"reject"}`, "", "and no id_reuse"},
		{400, "/instances", `{"orchestration":"vote","update":{"name":""}}`, "", `bad name ""`},
		{400, "/instances", `{"orchestration":"vote","attributes":{"status":"x"}}`, "", `bad attribute: name "status"`},
		{400, "/instances", `{"orchestration":"vote","attributes":{"tenant":1.5}}`, "", `bad attribute: tenant: "1.5" is not a whole number`},
		{404, "/instances/v-1/queries/total", ``, "", "v-1"},
	} {
		var headers []string
		if c.key != "" {
			headers = []string{"Idempotency-Key", c.key}
		}
		got := h.do(c.status, "POST", c.path, c.body, headers...)
		if detail, _ := got["detail"].(string); !strings.Contains(detail, c.detail) {
			t.Errorf("%s %.80s: %q, want %q", c.path, c.body, detail, c.detail)
		}
	}
	for path, want := range map[string]string{
		"/instances?where=tenant":               "where: column 7: expected =",
		"/instances?where=status+%3D+faild":     `where: column 10: "faild" is not a status`,
		"/instances?where=unanswered+%3D+maybe": `where: column 14: "maybe" is not a value of unanswered`,
		"/instances?where=%22":                  "where: column 1: the quote is not closed",
		"/instances?cursor=garbage":             "cursor",
		"/counts?by=started":                    "instances are counted by",
		"/counts?by=%00":                        "instances are counted by",
		"/counts?where=id+%3D":                  "where: column 5",
	} {
		if detail, _ := h.do(400, "GET", path, "")["detail"].(string); !strings.Contains(detail, want) {
			t.Errorf("%s: %q, want %q", path, detail, want)
		}
	}
}
