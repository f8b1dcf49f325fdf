package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/poll"
)

func TestBatchIsStartedAndListedOverHTTP(t *testing.T) {
	h := newHarness(t)
	for _, id := range []string{"n-1", "n-2"} {
		h.do(202, "POST", "/instances", `{"orchestration":"nap","id":"`+id+`"}`)
	}
	h.do(202, "POST", "/instances", `{"orchestration":"pay","id":"p-1","input":{"amount":7},"wait_for":"started"}`)
	const body = `{"verb":"terminate","where":"orchestration = nap","reason":"enough"`
	poll.Until(t, time.Minute, "both run", func() bool { return h.do(200, "POST", "/batches", body+`,"dry_run":true}`)["count"] == 2.0 })
	h.do(400, "POST", "/batches", `{"verb":"terminate"}`)
	h.do(400, "POST", "/batches", `{"verb":"terminate","where":"status = x"}`)
	h.do(400, "POST", "/instances", `{"orchestration":"pawl.batch","input":{}}`)
	h.do(404, "GET", "/batches/b-1", "")
	h.do(404, "GET", "/batches/n-1", "")
	h.do(202, "POST", "/batches", body+`,"id":"b-1"}`)
	h.do(200, "GET", "/instances/b-1/result?wait=30s", "")
	got := h.do(200, "GET", "/batches/b-1", "")
	h.want(got, "status", "completed")
	h.want(got, "sent", 2)
	h.want(got, "total", 2)
	for _, id := range []string{"n-1", "n-2"} {
		h.want(h.do(200, "GET", "/instances/"+id+"/result?wait=30s", ""), "status", "cancelled")
	}
	h.want(h.do(200, "GET", "/instances/p-1", ""), "status", "running")
	for _, verb := range []string{`"cancel"`, `"terminate"`, `"pause"`, `"resume"`, `"retry"`, `"purge"`, `"rewind","to":1`, `"event","event":"approved"`} {
		h.do(200, "POST", "/batches", `{"verb":`+verb+`,"where":"id = p-1","dry_run":true}`)
	}
	h.do(202, "POST", "/batches", `{"verb":"event","event":"approved","data":"finance","where":"id = p-1","id":"b-2"}`)
	h.want(h.do(200, "GET", "/instances/p-1/result?wait=30s", ""), "status", "completed")
	h.want(h.do(200, "GET", "/batches/b-2", ""), "event", "approved")
	h.do(202, "POST", "/batches", `{"verb":"rewind","to":1,"where":"id = p-1","id":"b-3"}`)
	poll.Until(t, time.Minute, "it is rewound", func() bool { return h.do(200, "GET", "/instances/p-1", "")["execution"] == 2.0 })
	h.want(h.do(200, "GET", "/batches/b-3", ""), "to", 1)
	if all, _ := h.do(200, "GET", "/batches", "")["batches"].([]any); len(all) != 3 {
		t.Errorf("%v", all)
	}
}

// A user without permission to purge must not be able to retry or rewind the purge batch of an admin.
func TestOnlyAdminsRetryAndRewindBatches(t *testing.T) {
	tokens, err := access.ReadTokens(strings.NewReader("operator-token-01234567 operator bob\nadmin-token-01234567890 admin eve\n"))
	check(t, err)
	h := newHarnessFor(t, access.Policy{Tokens: tokens})
	operator, admin := []string{"Authorization", "Bearer operator-token-01234567"}, []string{"Authorization", "Bearer admin-token-01234567890"}
	const purge = `{"verb":"purge","where":"id = none"}`
	h.do(403, "POST", "/batches", purge, operator...)
	h.do(202, "POST", "/batches", purge[:len(purge)-1]+`,"id":"b-1"}`, admin...)
	h.do(200, "GET", "/instances/b-1/result?wait=30s", "", admin...)
	h.do(403, "POST", "/instances/b-1/retry", `{"from_start":true}`, operator...)
	h.do(403, "POST", "/instances/b-1/rewind", `{"to":1}`, operator...)
	for _, where := range []string{`"all":true`, `"where":"id starts b-"`} {
		h.do(403, "POST", "/batches", `{"verb":"rewind","to":1,`+where+`}`, operator...)
	}
	before := h.do(200, "GET", "/instances/b-1", "", operator...)["execution"] // a slow batch continues as new
	h.do(202, "POST", "/batches", `{"verb":"rewind","to":1,"where":"orchestration != pawl.batch","id":"b-2"}`, operator...)
	h.want(h.do(200, "GET", "/instances/b-1", "", operator...), "execution", before)
	if status, _ := h.try("POST", "/instances/b-1/rewind", `{"to":1}`, admin...); status == 403 {
		t.Error("an admin may not rewind a batch")
	}
}
