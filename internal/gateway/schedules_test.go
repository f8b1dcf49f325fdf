package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
)

func TestJobsRunAndSchedulesAreControlledOverHTTP(t *testing.T) {
	h := newHarness(t)
	h.want(h.do(200, "POST", "/jobs", `{"activity":"charge","id":"j-1","input":{"amount":7},"after":"1ms","attempts":2,"wait":"30s"}`), "result", "receipt-7")
	h.do(400, "POST", "/jobs", `{"activity":"a b"}`)
	h.do(400, "POST", "/jobs", `{"activity":"charge","after":"soon"}`)
	h.do(400, "POST", "/jobs", `{"activity":"charge","attempt_timeout":"long"}`)
	h.do(202, "POST", "/jobs", `{"activity":"charge","id":"j-2","after":"1h","within":"3m","attempt_timeout":"2m"}`)
	var begun []any
	poll.Until(t, time.Minute, "the job has begun", func() bool {
		status, page := h.try("GET", "/instances/j-2/history", "")
		begun, _ = page["events"].([]any)
		return status == 200
	})
	if text := fmt.Sprint(begun...); !strings.Contains(text, "attempt_timeout:2m0s") || !strings.Contains(text, "within:3m0s") {
		t.Errorf("%v", text)
	}

	const config = `{"cron":["0 9 * * *"],"zone":"Europe/Zurich","run":{"activity":"charge","input":{"amount":7}}}`
	h.do(404, "GET", "/schedules/daily", "")
	h.do(202, "PUT", "/schedules/daily", config)
	h.do(400, "PUT", "/schedules/daily", `{"cron":["x"],"run":{"activity":"charge"}}`)
	for range 2 { // repeats have no effect
		h.do(202, "POST", "/schedules/daily/trigger", "", "Idempotency-Key", "request 7")
	}
	h.do(400, "POST", "/schedules/daily/trigger", "", "Idempotency-Key", "request\t7")
	h.do(202, "POST", "/schedules/daily/pause", `{"note":"holiday"}`)
	got := h.do(200, "GET", "/schedules/daily", "")
	h.want(got, "done", 1)
	h.want(got, "skipped", 0)
	if c, _ := got["schedule"].(map[string]any); c["paused"] != true || c["note"] != "holiday" {
		t.Errorf("%v", got)
	}
	h.do(404, "POST", "/schedules/daily/stop", "")
	if list, _ := h.do(200, "GET", "/schedules", "")["schedules"].([]any); len(list) != 1 {
		t.Errorf("%v", list)
	}
	if times, _ := h.do(200, "GET", "/schedules/daily/next?count=3", "")["times"].([]any); len(times) != 3 {
		t.Errorf("%v", times)
	}
	h.do(400, "GET", "/schedules/daily/next?count=1001", "")
	h.do(404, "GET", "/schedules/weekly/next", "")
	owners, _ := h.do(200, "GET", "/partitions", "")["partitions"].([]any)
	for _, p := range owners {
		if o, _ := p.(map[string]any); o["owner"] == nil || o["since"] == nil {
			t.Errorf("%v", o)
		}
	}
	if len(owners) == 0 {
		t.Error("there are no partitions")
	}
	known := h.do(200, "GET", "/registered", "")
	if all, _ := known["activities"].([]any); !slices.Contains(all, any("charge")) {
		t.Errorf("%v", known)
	}
	h.do(400, "POST", "/schedules/daily/backfill", "{}")
	h.do(404, "POST", "/schedules/weekly/resume", "")
	h.do(202, "DELETE", "/schedules/daily", "")
	h.do(404, "GET", "/schedules/daily", "")
}
