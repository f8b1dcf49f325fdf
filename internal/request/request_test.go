package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T) *transport.Conn {
	t.Helper()
	c, err := transport.Open(timeout(t), natstest.Dial(t, natstest.Start(t).ClientURL()), transport.Options{Partitions: 4})
	ok(t, err)
	t.Cleanup(c.Close)
	return c
}

// fill sets each field of a value to a different value, so that the test detects a field that is not encoded.
func fill(t testing.TB, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(t, f, n)
		}
	default:
		t.Fatalf("cannot fill a %s", v.Type())
	}
}

func requests() (all []Request) {
	for _, op := range slices.Sorted(maps.Keys(constructors)) {
		all = append(all, constructors[op]())
	}
	return all
}

func replies() []Reply {
	return []Reply{
		&Answered{}, &Description{}, &HistoryPage{}, &InstancePage{}, &Counts{}, &QueueDemand{}, &LimitPage{}, &WaiterPage{}, &Cleared{}, &PolicyList{}, &Done{}, &Worker{},
		&QueryAnswer{}, &StartState{}, &OwnerVersions{}, &Ownership{}, &StoreHealth{},
	}
}

func emptyLike[T any](v T) T {
	return reflect.New(reflect.TypeOf(v).Elem()).Interface().(T) //nolint:forcetypeassert // of the same type
}

func TestEveryFieldOfRequestsAndRepliesRoundTrips(t *testing.T) {
	n := 0
	for _, q := range requests() {
		fill(t, reflect.ValueOf(q).Elem(), &n)
		if got, err := decodeRequest(encode(q), transport.AccessAdmin); err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("got %+v, %v, want %+v", got, err, q)
		}
	}
	for _, r := range replies() {
		fill(t, reflect.ValueOf(r).Elem(), &n)
		got := emptyLike(r)
		if err := decodeReply(encodeReply(r, nil), got); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v, want %+v", got, err, r)
		}
	}
}

func TestRequestIsAnsweredWithAReplyAProblemOrALaterAnswer(t *testing.T) {
	conn := open(t)
	answers := make(chan Answer, 1)
	inbox, err := OnAnswers(conn, func(_ string, a Answer) { answers <- a })
	ok(t, err)
	defer inbox.Stop()
	s, err := Serve(conn, 1, func(_ context.Context, q Request) (Reply, error) {
		switch q := q.(type) {
		case *Describe:
			return &Description{Summary: Summary{Instance: q.Instance}}, nil
		case *Await:
			return &Answered{}, Publish(conn, q.ReplyTo, Answer{Instance: q.Instance, Status: "completed"})
		case *Status:
			return &Answered{Answer: &Answer{Instance: q.ReplyTo}}, nil
		case *History:
			return &HistoryPage{Events: [][]byte{make([]byte, 2<<20)}}, nil
		case *Count:
			return nil, errors.New("redis: connection refused")
		default:
			return nil, &Problem{Code: ProblemNotFound, Message: "no"}
		}
	})
	ok(t, err)
	defer s.Stop()
	var d Description
	if err := Call(timeout(t), conn, 1, &Describe{Instance: "a"}, &d); err != nil || d.Instance != "a" {
		t.Errorf("%+v, %v", d, err)
	}
	var r Answered
	if err := Call(timeout(t), conn, 1, &Await{Instance: "a", ReplyTo: inbox.Subject("t")}, &r); err != nil || r.Answer != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if a := <-answers; a.Instance != "a" || a.Status != "completed" {
		t.Errorf("%+v", a)
	}
	if err := Call(timeout(t), conn, 1, &Status{ReplyTo: "orders.ship"}, &r); err != nil || r.Answer.Instance != "" {
		t.Errorf("an answer may be published to %q, %v", r.Answer.Instance, err)
	}
	for want, q := range map[string]Request{ProblemNotFound: &Clear{}, ProblemInternal: &Count{}} {
		var p *Problem
		if err := Call(timeout(t), conn, 1, q, &Done{}); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%T: %v", q, err)
		}
	}
	var p *Problem
	if err := Call(timeout(t), conn, 1, &History{}, &HistoryPage{}); !errors.As(err, &p) || p.Code != ProblemInternal {
		t.Errorf("a reply that exceeds the size of a message: %v", err)
	}
	if err := Call(timeout(t), conn, 2, &Count{}, &Counts{}); !errors.Is(err, transport.ErrNoOwner) {
		t.Errorf("a partition without an owner: %v", err)
	}
}

func TestRequestInterruptedByAStopFailsAsNotOwner(t *testing.T) {
	conn := open(t)
	begun := make(chan struct{})
	s, err := Serve(conn, 1, func(ctx context.Context, _ Request) (Reply, error) {
		close(begun)
		<-ctx.Done()
		return nil, fmt.Errorf("read the record: %w", ctx.Err())
	})
	ok(t, err)
	failed := make(chan error, 1)
	go func() { failed <- Call(timeout(t), conn, 1, &Describe{Instance: "a"}, &Description{}) }()
	<-begun
	s.Stop()
	var p *Problem
	if err := <-failed; !errors.As(err, &p) || p.Code != ProblemNotOwner {
		t.Error(err)
	}
}

// Trap: roles share a subject. A request must be sent on the subject whose permission the operation requires.
func TestOperationRequiresThePermissionOfItsSubject(t *testing.T) {
	admin := 0
	for _, q := range requests() {
		_, err := decodeRequest(encode(q), transport.AccessRead)
		if denied := errors.Is(err, transport.ErrMalformed); denied != (AccessOf(q) == transport.AccessAdmin) {
			t.Errorf("%T with the permission to read: %v", q, err)
		} else if denied {
			admin++
		}
	}
	if admin != 5 { // Clear, SetPolicy, DeletePolicy, Requeue, DropRefused
		t.Errorf("%d operations require the permission of an administrator", admin)
	}
}

func TestWorkersReturnsTheDescriptionOfEveryWorker(t *testing.T) {
	conn := open(t)
	want := Worker{Name: "w", PID: 7, Queues: []string{"q"}, Abandoned: make([]Task, maxAbandoned+1)}
	s, err := ServeWorker(conn, func() Worker { return want })
	ok(t, err)
	defer s.Stop()
	ok(t, conn.NATS().Flush())
	var got []Worker
	for window := 200 * time.Millisecond; len(got) == 0 && window < time.Minute; window *= 2 { // a busy machine may not answer within the first
		got, err = Workers(timeout(t), conn, window)
		ok(t, err)
	}
	if err != nil || len(got) != 1 || got[0].Name != "w" || got[0].PID != 7 || len(got[0].Abandoned) != maxAbandoned {
		t.Errorf("%d workers, %v", len(got), err)
	}
}

// FuzzRequests decodes bytes as a request and as each reply. Errors are typed; a decoded value round-trips.
func FuzzRequests(f *testing.F) {
	n := 0
	for _, q := range requests() {
		fill(f, reflect.ValueOf(q).Elem(), &n)
		f.Add(encode(q))
	}
	for _, r := range replies() {
		fill(f, reflect.ValueOf(r).Elem(), &n)
		f.Add(encodeReply(r, nil))
	}
	f.Add([]byte("\x82\xa6tenant\xa1x\xa5cents\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := decodeRequest(b, transport.AccessAdmin); err == nil {
			if again, err := decodeRequest(encode(q), transport.AccessAdmin); err != nil || !reflect.DeepEqual(again, q) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
		for _, r := range replies() {
			err := decodeReply(b, r)
			if p, problem := errors.AsType[*Problem](err); err != nil && !problem && !errors.Is(err, transport.ErrMalformed) && !errors.Is(err, transport.ErrNewer) {
				t.Errorf("%T: untyped error %v %v", r, err, p)
			}
			if err == nil {
				if err := decodeReply(encodeReply(r, nil), emptyLike(r)); err != nil {
					t.Errorf("%T does not round-trip: %v", r, err)
				}
			}
		}
		if updated, instance, err := ParseListCursor(string(b)); err == nil && len(b) > 0 {
			if again, id, err := ParseListCursor(ListCursor(updated, instance)); err != nil || again != updated || id != instance {
				t.Errorf("%q became %d %q, %v", b, again, id, err)
			}
		}
	})
}

func TestResultThatIsNotJSONIsBase64InAnOutcome(t *testing.T) {
	a := Answer{Instance: "i", Status: "completed", Result: history.Payload{Type: "image/png", Data: []byte{1, 2}}}
	if o := a.Outcome(); string(o.Result) != `"AQI="` {
		t.Errorf("%s", o.Result)
	}
}
