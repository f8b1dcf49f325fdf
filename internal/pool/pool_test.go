package pool_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const replyTimeout = time.Minute

// namespace is a namespace in which members send each other requests.
type namespace struct {
	t      *testing.T
	conn   *transport.Conn
	caller *pool.Caller
}

func newNamespace(t *testing.T) *namespace {
	n := &namespace{t: t}
	var err error
	if n.conn, err = transport.Open(context.Background(), natstest.Dial(t, natstest.Start(t).ClientURL()), transport.Options{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.conn.Close)
	if n.caller, err = pool.NewCaller(n.conn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.caller.Close)
	return n
}

// find searches for a member.
func (n *namespace) find(name, version string, newest bool) (pool.Found, error) {
	type found struct {
		pool.Found
		err error
	}
	got := make(chan found, 1)
	n.caller.Find(name, version, newest, replyTimeout, func(f pool.Found, err error) { got <- found{f, err} })
	f := <-got
	return f.Found, f.err
}

func (n *namespace) send(at string, r pool.Request, within time.Duration) ([]byte, error) {
	type answer struct {
		b   []byte
		err error
	}
	got := make(chan answer, 1)
	n.caller.Send(at, r.Encode(""), within, func(b []byte, err error) { got <- answer{b, err} })
	a := <-got
	return a.b, a.err
}

func (n *namespace) join(programs *author.Registry, fn func(m *pool.Member, to string, r pool.Request)) *pool.Member {
	m := pool.NewMember(n.conn, rand.Text())
	if err := m.Join(programs, func(to string, r pool.Request) error {
		fn(m, to, r)
		return nil
	}); err != nil {
		n.t.Fatal(err)
	}
	return m
}

func orchestration(t *testing.T, name string, versions ...string) *author.Registry {
	h := pawl.NewOrchestration[int, int](name, pawl.Concurrency(3))
	var all []pawl.OrchestrationBinding
	for _, v := range versions {
		all = append(all, h.Do(func(_ *pawl.Context, n int) (int, error) { return n, nil }, pawl.Version(v)))
	}
	r, err := author.NewRegistry(all...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMemberIsFoundByOrchestrationAndVersion holds that the server replies at once if no member has the code.
func TestMemberIsFoundByOrchestrationAndVersion(t *testing.T) {
	n := newNamespace(t)
	m := n.join(orchestration(t, "bills.v", "1.1", "2"), nil)
	for _, c := range []struct {
		name, version string
		newest        bool
		want          string
		err           error
	}{
		{"bills.v", "", true, "2", nil}, {"bills.v", "1.1", false, "1.1", nil}, {"bills.v", "2", false, "2", nil},
		{"bills.v", "", false, "", pool.ErrNoMember}, {"bills", "", true, "", pool.ErrNoMember}, {"bills.v", "3", false, "", pool.ErrNoMember},
	} {
		f, err := n.find(c.name, c.version, c.newest)
		if !errors.Is(err, c.err) || f.Version != c.want {
			t.Errorf("%s %q: %+v, %v", c.name, c.version, f, err)
		}
		if err == nil && (f.Declared.Action == nil || f.Declared.Action.Concurrency != 3) {
			t.Errorf("%s %q: the limit is missing: %+v", c.name, c.version, f.Declared)
		}
	}
	at, _ := n.find("bills.v", "", true)
	m.Leave()
	if _, err := n.find("bills.v", "", true); !errors.Is(err, pool.ErrNoMember) {
		t.Errorf("a member that has left is found: %v", err)
	}
	if _, err := n.send(at.At, pool.Request{Query: &pool.Query{}}, replyTimeout); !errors.Is(err, pool.ErrNoMember) {
		t.Errorf("a member that has left received a request: %v", err)
	}
}

// TestReplyIsAppliedOnceAndWhileItsRequestIsOpen has a member answer twice, late, with garbage, and not at all; messages in both directions
// take many parts.
func TestReplyIsAppliedOnceAndWhileItsRequestIsOpen(t *testing.T) {
	n := newNamespace(t)
	large := bytes.Repeat([]byte("x"), 1<<20)
	late := make(chan func(), 1)
	m := n.join(orchestration(t, "bills", "1"), func(m *pool.Member, to string, r pool.Request) {
		answer := func() {
			if err := m.Answer(to, &pool.Answer{Query: &pool.QueryAnswer{Result: history.Payload{Type: "t", Data: r.Query.Payload.Data}}}); err != nil {
				t.Error(err)
			}
		}
		switch r.Query.Query {
		case "twice":
			_ = n.conn.AnswerMember(to, []byte("nonsense"))
			answer()
			answer()
		case "late":
			late <- answer
		case "large":
			if err := m.Answer(to, &pool.Answer{Query: &pool.QueryAnswer{Result: history.Payload{Type: "t", Data: make([]byte, pool.MaxMessage)}}}); err != nil {
				t.Error(err)
			}
		}
	})
	defer m.Leave()
	f, err := n.find("bills", "1", false)
	if err != nil {
		t.Fatal(err)
	}
	twice := pool.Request{Query: &pool.Query{Query: "twice", Payload: history.Payload{Type: "t", Data: large}}}
	for range 2 { // the second one shows that no part of the first one remains
		b, err := n.send(f.At, twice, replyTimeout)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := pool.DecodeAnswer(b); err != nil || !bytes.Equal(a.Query.Result.Data, large) {
			t.Errorf("the answer differs: %v", err)
		}
	}
	if _, err := n.send(f.At, pool.Request{Query: &pool.Query{Query: "late"}}, 50*time.Millisecond); !errors.Is(err, pool.ErrUnanswered) {
		t.Errorf("without an answer: %v", err)
	}
	(<-late)()
	if _, err := n.send(f.At, twice, replyTimeout); err != nil {
		t.Errorf("after a late answer: %v", err)
	}
	b, err := n.send(f.At, pool.Request{Query: &pool.Query{Query: "large"}}, replyTimeout)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := pool.DecodeAnswer(b); err != nil || !strings.Contains(a.Missing, "more than") {
		t.Errorf("an answer that is too large: %+v, %v", a, err)
	}
	twice.Query.Payload.Data = make([]byte, pool.MaxMessage)
	if _, err := n.send(f.At, twice, replyTimeout); !errors.Is(err, pool.ErrTooLarge) {
		t.Errorf("a request that is too large: %v", err)
	}
}

// TestTurnThatIsTooLargeHasItsSizeInTheAnswer holds that the owner fails the instance as if it had decided the turn itself.
func TestTurnThatIsTooLargeHasItsSizeInTheAnswer(t *testing.T) {
	large := &core.Decided{Additions: core.Additions{Size: record.CommitBytes + 1, Encoded: [][]byte{make([]byte, pool.MaxMessage)}}, Front: make([][]byte, 3)}
	a, err := pool.DecodeAnswer(pool.AnswerOf(new(core.Given), large, replay.Awaited{}).Encode())
	if err != nil {
		t.Fatal(err)
	}
	d := a.Decided(new(core.Given), new(fold.State))
	if d.Err != nil || d.Missing != "" || d.Size != large.Size || len(d.Front) != 3 {
		t.Errorf("%d bytes, %d elements, %v %s", d.Size, len(d.Front), d.Err, d.Missing)
	}
}

// TestInvalidDecisionOfAMemberIsAnError holds that an owner rejects an answer that does not match its request.
func TestInvalidDecisionOfAMemberIsAnError(t *testing.T) {
	given := &core.Given{Inputs: []core.Unread{{ID: "1.1.seal", Ev: &history.Started{Name: "o"}}}}
	second, err := eventcodec.Encode(&history.TimerFired{Timer: 9})
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*pool.Answer{
		"more inputs than given": {Popped: 2}, "an event that breaks the history": {Events: [][]byte{second}}, "no event": {Events: [][]byte{[]byte("x")}},
		"no element": {Front: [][]byte{[]byte("x")}},
	} {
		if d := a.Decided(given, &fold.State{}); d.Err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// FuzzMembers decodes arbitrary messages on the subjects of members.
func FuzzMembers(f *testing.F) {
	started := &history.Started{Name: "o", Payload: history.Payload{Type: "t", Data: []byte("1")}, Execution: 1}
	given := core.Given{Source: core.Source{Name: "o"}, Inputs: []core.Unread{{ID: "1.1", Ev: started}, {ID: "2.2"}}, Local: []history.Event{&history.Granted{Scheduled: 1}}, Now: 5}
	encoded, err := eventcodec.Encode(started)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pool.Request{Turn: &pool.Turn{ID: "t", Given: given}}.Encode(""))
	f.Add(pool.Request{Query: &pool.Query{Name: "o"}}.Encode(""))
	f.Add((&pool.Answer{Events: [][]byte{encoded}, Popped: 1, Status: &core.StatusChange{Sets: 1}, Unread: []string{"e"}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := pool.DecodeRequest(b); err == nil {
			again, err := pool.DecodeRequest(r.Encode(""))
			if err != nil || !bytes.Equal(again.Encode(""), r.Encode("")) {
				t.Errorf("%+v differs after a round trip: %v", r, err)
			}
		}
		if a, err := pool.DecodeAnswer(b); err == nil {
			if d := a.Decided(&given, &fold.State{}); d.Err == nil && a.Missing == "" && a.TooLarge == 0 && len(d.Events) != len(a.Events) {
				t.Errorf("%d events of %d", len(d.Events), len(a.Events))
			}
		}
	})
}
