package queue

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/history"
)

// Trap: a refusal that quotes what it refuses. 2,000 messages with headers of 200 KB made a log of 585 MB.
func TestRefusalsQuoteABoundedPartOfTheMessage(t *testing.T) {
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
