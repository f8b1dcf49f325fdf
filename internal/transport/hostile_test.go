package transport

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/history"
)

// Trap: a single message of a publisher permanently ended the NATS connection of every orchestrator: the rejection was sent to the subject in
// its Pawl-Reply, which exceeded the 4 KiB that the server accepts.
func TestNothingIsPublishedOnSubjectsThatTheServerDoesNotRead(t *testing.T) {
	for _, to := range []string{strings.Repeat("y", 5000), "a b", "a\r\nPUB b 0", "a\x00b", "a\x7f", ""} {
		m := &nats.Msg{Subject: "pawl.ns.in.0.to.i.start.o", Header: nats.Header{HeaderReply: {to}, HeaderID: {strings.Repeat("i", 300)}}}
		if in := decodeInput(m, "pawl.ns.", history.Position{Seq: 1}); in.Reply != "" || in.Problem == nil {
			t.Errorf("%.20q: reply to %.20q, %v", to, in.Reply, in.Problem)
		}
	}
	c := newHarness(t).open(Options{Namespace: "ns", Partitions: 1})
	for _, worker := range []string{strings.Repeat("w", 5000), "a b", "a\r\nPUB b 0\r\n\r\n"} {
		if err := c.send(c.subj.hint(worker), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("to %.20q: %v", worker, err)
		}
	}
	if err := errors.Join(c.nc.Flush(), c.nc.LastError()); err != nil {
		t.Error(err)
	}
}

// Trap: a rejection that quotes the whole message. 2,000 messages with headers of 200 KB produced a log of 585 MB.
func TestRejectionsQuoteABoundedPartOfTheMessage(t *testing.T) {
	root, long := "pawl.ns.", strings.Repeat("x", 200<<10)
	parent := "p\x00" + long
	for name, m := range map[string]*nats.Msg{
		"version":               {Header: nats.Header{HeaderVersion: {long}}},
		"split":                 {Header: nats.Header{HeaderEvent: {"e"}, HeaderSplit: {long}}},
		"event":                 {Header: nats.Header{HeaderEvent: {long}}},
		"parent":                {Header: nats.Header{HeaderParent: {parent}}},
		"content type":          {Header: nats.Header{HeaderContentType: {long}}, Data: []byte("1")},
		"orchestration version": {Header: nats.Header{HeaderOrchestrationVersion: {long}}},
		"instance":              {Subject: root + "in.0.own." + long + ".start.o"},
		"kind":                  {Subject: root + "in.0.own.i." + long},
		"name":                  {Subject: root + "in.0.own.i.start." + long},
		"subject":               {Subject: long},
	} {
		if m.Subject == "" {
			m.Subject = root + "in.0.own.i.start.o"
		}
		in := decodeInput(m, root, history.Position{Seq: 1})
		if in.Problem == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if n := len(in.Problem.Error()) + len(in.Instance); n > maxProblem+maxHeader {
			t.Errorf("%s: %d bytes", name, n)
		}
		if errors.Unwrap(in.Problem) == nil {
			t.Errorf("%s: %v does not unwrap", name, in.Problem)
		}
	}
}
