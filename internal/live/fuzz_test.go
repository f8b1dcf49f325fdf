package live

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
)

// FuzzStream resumes a stream after any Last-Event-ID, and receives any change, which another client of NATS may forge. The first event is
// ready, a resync or the changes after the id, in one frame that names the position of the hub, and no frame contains a line that the change
// has made.
func FuzzStream(f *testing.F) {
	change := `{"instance":"order-1","status":"running","was":"pending","attributes":{"tenant":"acme"},"replaced":["status"]}`
	f.Add("", `status = running`, change)
	f.Add("-1", `tenant = acme and id starts order`, change)
	f.Add("EPOCH-1", `orchestration in (a, b)`, `{"instance":"a","status":"\n\ndata: x","attributes":[]}`)
	f.Add("EPOCH-18446744073709551615", `due < -3h`, `{"instance":"","attributes":{"due":{"time":"x"}},"replaced":["","\u0000"]}`)
	f.Add("EPOCH-9223372036854775807-", "", `{"instance":"b","attributes":"`+strings.Repeat("a", 5000)+`"}`)
	f.Add("EPOCH-+0", `stalled = true`, `{"instance":"b","stalled":"\r\nevent: ready","unanswered":true}`)
	f.Fuzz(func(t *testing.T, last, text, forged string) {
		var c client.Change
		if json.Unmarshal([]byte(forged), &c) != nil {
			return
		}
		var w filter.Where
		if text != "" {
			var err error
			if w, err = filter.Parse(text, time.Unix(1_790_000_000, 0)); err != nil {
				return
			}
		}
		source := &fake{}
		h := New(source.watch)
		defer h.Close()
		first, _ := opened(t, h, Filter{Where: w}, "")
		defer first.Close()
		source.Changed(c)
		position := h.Position()
		epoch, _, _ := strings.Cut(position, "-")
		s, e := opened(t, h, Filter{Where: w}, strings.Replace(last, "EPOCH", epoch, 1))
		defer s.Close()
		if e.id != position || e.name != "ready" && e.name != "resync" && (e.name != "changes" || len(e.instances) != 1 || e.instances[0] != c.Instance) {
			t.Errorf("after %q the first event is %+v, at %s", last, e, position)
		}
	})
}

func opened(t *testing.T, h *Hub, f Filter, last string) (*Stream, event) {
	t.Helper()
	s, frame, err := h.Open(f, last)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(frame), "\n"); n != 4 || !strings.HasSuffix(string(frame), "\n\n") || strings.Contains(string(frame), "\r") {
		t.Errorf("a frame of %d lines: %q", n, frame)
	}
	return s, parse(t, frame)
}
