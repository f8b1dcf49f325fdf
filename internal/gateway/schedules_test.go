package gateway_test

import "testing"

func TestJobsAndSchedulesOverHTTP(t *testing.T) {
	h := newHarness(t)
	h.want(h.do(200, "POST", "/jobs", `{"activity":"charge","id":"j-1","input":{"amount":7},"after":"1ms","attempts":2,"wait":"30s"}`), "result", "receipt-7")
	h.do(400, "POST", "/jobs", `{"activity":"a b"}`)
	h.do(400, "POST", "/jobs", `{"activity":"charge","after":"soon"}`)

	const config = `{"cron":["0 9 * * *"],"zone":"Europe/Zurich","run":{"activity":"charge","input":{"amount":7}}}`
	h.do(404, "GET", "/schedules/daily", "")
	h.do(202, "PUT", "/schedules/daily", config)
	h.do(400, "PUT", "/schedules/daily", `{"cron":["x"],"run":{"activity":"charge"}}`)
	h.do(202, "POST", "/schedules/daily/trigger", "")
	h.do(202, "POST", "/schedules/daily/pause", `{"note":"holiday"}`)
	got := h.do(200, "GET", "/schedules/daily", "")
	h.want(got, "done", 1)
	if c, _ := got["schedule"].(map[string]any); c["paused"] != true || c["note"] != "holiday" {
		t.Errorf("%v", got)
	}
	h.do(400, "POST", "/schedules/daily/stop", "")
	h.do(400, "POST", "/schedules/daily/backfill", "{}")
	h.do(404, "POST", "/schedules/weekly/resume", "")
	h.do(202, "DELETE", "/schedules/daily", "")
	h.do(404, "GET", "/schedules/daily", "")
}
