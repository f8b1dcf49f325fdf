package orchestrator_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// logged is a log to which several goroutines write.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Trap: a log line per invalid message that quotes the message. 2,000 messages caused a log of 585 MB.
func TestHundredsOfInvalidMessagesAreLoggedInAFewLines(t *testing.T) {
	s := newHarness(t)
	log := &logged{}
	s.log = slog.New(slog.NewTextHandler(log, nil))
	c := counters(t)
	s.orchestrate(orchestrator.Config{Metrics: c.reg}, hello.Do(callGreet))
	before := len(log.text())
	bad := strings.Repeat("x", 8<<10)
	const each = 200
	for i := range each {
		m := message.OutInput{Instance: fmt.Sprint("bad-", i), Kind: message.KindEvent, Name: "e", Payload: history.Payload{Type: ";;" + bad, Data: []byte("1")}}
		s.conn.PublishInputAsync(m, func(uint64, error) {})
		s.conn.PublishInputAsync(message.OutInput{Instance: fmt.Sprint("unknown-", i), Kind: message.KindCancel}, func(uint64, error) {})
	}
	s.until("all are refused", func() bool {
		return c.get("pawl_orchestrator_inputs_refused_total") >= each && c.get("pawl_orchestrator_inputs_dropped_total") >= each
	})
	got := log.text()[before:]
	if lines := strings.Count(got, "\n"); lines > 40 || len(got) > 40<<10 {
		t.Errorf("%d lines, %d bytes", lines, len(got))
	}
	var r request.InstancePage
	err := s.request(s.conn.PartitionOf("bad-1"), new(request.Stalled), &r)
	if err != nil || len(r.Instances) == 0 || len(r.Instances) > 100 || len(r.Instances[0].Stalled) > 700 {
		t.Errorf("%d rows, %v", len(r.Instances), err)
	}
}

// Trap: unbounded inputs before a start. The sender receives an error, and other instances of the partition continue.
func TestInputsOverTheBoundAreReportedAndOtherInstancesContinue(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) }))
	answers := make(chan request.Answer, 10)
	inbox, err := request.OnAnswers(s.conn, func(_ string, a request.Answer) { answers <- a })
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Stop()
	ids := s.samePartition(2)
	flooded, neighbor := ids[0], ids[1]
	half := history.Payload{Type: history.TypeJSON, Data: []byte(`"` + strings.Repeat("x", 511<<10) + `"`)}
	for i := range 9 { // 4.5 MiB
		s.publish(message.OutInput{ID: fmt.Sprint("flood-", i), Instance: flooded, Kind: message.KindEvent, Name: "ping", Payload: half, Reply: inbox.Subject("flood")})
	}
	select {
	case a := <-answers:
		if a.Problem == nil || a.Problem.Code != request.ProblemRefused || !strings.Contains(a.Problem.Message, "4 MiB") {
			t.Errorf("%+v", a.Problem)
		}
	case <-time.After(time.Minute):
		t.Fatal("the sender gets no error")
	}
	s.event("ping", neighbor, `"early"`)
	s.start("hello", neighbor, `"x"`)
	if d := s.ended(neighbor); d.Status != "completed" {
		t.Errorf("%+v", d.Failure)
	}
	s.until("it is listed", func() bool {
		var r request.InstancePage
		err := request.Call(s.ctx(), s.conn, s.conn.PartitionOf(flooded), new(request.Stalled), &r)
		return err == nil && len(r.Instances) > 1 && r.Instances[len(r.Instances)-1].Status == "refused" && strings.Contains(r.Instances[len(r.Instances)-1].Stalled, "4 MiB")
	})
	s.start("hello", flooded, `"x"`)
	if d := s.ended(flooded); d.Status != "failed" || d.Failure.Code != history.CodeInboxFull {
		t.Errorf("%+v", d)
	}
}
