package imported_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/imported"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// deflated returns the payload of an import that decompresses to plain.
func deflated(tb testing.TB, plain []byte) history.Payload {
	tb.Helper()
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = z.Write(plain)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		tb.Fatal(err)
	}
	return history.Payload{Type: imported.ContentType, Data: b.Bytes()}
}

// exported encodes an import of the events without the checks of Import.Payload, as a hostile sender might.
func exported(tb testing.TB, events ...history.Event) []byte {
	tb.Helper()
	instance, attributes, encoded := "order-1", "", make([][]byte, len(events))
	for i, e := range events {
		*e.Meta() = history.Head{ID: uint64(i) + 1, At: 1}
		var err error
		if encoded[i], err = eventcodec.Encode(e); err != nil {
			tb.Fatal(err)
		}
	}
	return wire.Encode(func(c *wire.Codec) {
		c.String(&instance)
		c.String(&attributes)
		wire.List(c, &encoded, (*wire.Codec).Bytes)
	})
}

func adopted(p history.Payload) ([]history.Event, error) {
	m, err := imported.Read(p)
	if err != nil {
		return nil, err
	}
	return m.Adopt("order-2", &history.Started{Origin: history.Position{Seq: 7, Time: 7}, Execution: 1})
}

// Trap: a list that is bounded only after it was allocated. An import of twelve KiB once made its owner allocate more than one GiB, and
// the next owner after the takeover, too.
func TestImportWithTooManyEventsAllocatesNoMemory(t *testing.T) {
	many := append([]byte{0x94, 1, 0xa1, 'a', 0xa0, 0xdd, 0, 0x30, 0, 0}, bytes.Repeat([]byte{0xc0}, 0x300000)...)
	p := deflated(t, many)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := imported.Read(p)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, imported.ErrNoImport) || !strings.Contains(err.Error(), "a list of 3145728 items") || n > 32<<20 {
		t.Errorf("%d bytes compressed: %d allocated, %v", len(p.Data), n, err)
	}
}

func TestImportWithInvalidExecutionNumbersIsRejected(t *testing.T) {
	started := func(execution uint64, recorded ...uint64) *history.Started {
		s := &history.Started{Name: "fulfil", Execution: execution}
		for _, last := range recorded {
			s.Recorded = append(s.Recorded, history.Recorded{Execution: last, Instance: "victim"})
		}
		return s
	}
	rewound := func(executions ...uint64) (events []history.Event) {
		for _, n := range executions {
			events = append(events, &history.Rewound{Execution: n})
		}
		return events
	}
	hundred := make([]uint64, 100)
	for i := range hundred {
		hundred[i] = uint64(i) + 1
	}
	for name, events := range map[string][]history.Event{
		"execution 0":                                 {started(0)},
		"the last execution":                          {started(1<<64 - 1)},
		"an execution beyond 2^32":                    {started(1 << 32)},
		"rewound to 2^62":                             append([]history.Event{started(1)}, rewound(1<<62)...),
		"rewound too often":                           append([]history.Event{started(1)}, rewound(5000)...),
		"rewound to its own execution":                append([]history.Event{started(2)}, rewound(2)...),
		"rewound backward":                            append([]history.Event{started(1)}, rewound(3, 2)...),
		"recorded elsewhere up to the last execution": {started(3, 1<<64-1)},
		"recorded elsewhere afterwards":               {started(3, 4)},
		"recorded in no order":                        {started(9, 3, 2)},
		"recorded in a hundred places":                {started(200, hundred...)},
	} {
		if _, err := adopted(deflated(t, exported(t, events...))); !errors.Is(err, imported.ErrNoImport) {
			t.Errorf("%s: %v", name, err)
		}
	}
	events := append([]history.Event{started(3, 1, 3)}, rewound(4, 6)...)
	got, err := adopted(deflated(t, exported(t, events...)))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := got[0].(*history.Started)
	var until []string
	for _, r := range s.Recorded {
		until = append(until, fmt.Sprint(r.Instance, " ", r.Execution))
	}
	if want := []string{"victim 1", "victim 3", "order-1 6"}; !slices.Equal(until, want) {
		t.Errorf("recorded by %q, want %q", until, want)
	}
	if again, err := adopted(deflated(t, exported(t, got...))); err != nil || len(again[0].(*history.Started).Recorded) != 3 { //nolint:forcetypeassert // the first event is the start
		t.Errorf("a second import, without executions of its own in between: %+v, %v", again, err)
	}
	if id := effectid.IdentityOf(s, effectid.Identity{Instance: "order-2"}, 7); id.Instance != "order-2" {
		t.Errorf("an execution of the import has the identity %+v", id)
	}
}

// An owner keeps an import that a newer build wrote until an owner of that build takes over.
func TestImportOfNewerBuildIsErrNewerVersion(t *testing.T) {
	for name, plain := range map[string][]byte{
		"message": {0x94, 2, 0xa1, 'a', 0xa0, 0x90},
		"event":   {0x94, 1, 0xa1, 'a', 0xa0, 0x91, 0xc4, 4, 0x93, 99, 1, 0},
		"kind":    {0x94, 1, 0xa1, 'a', 0xa0, 0x91, 0xc4, 5, 0x93, 1, 0xcc, 200, 0},
	} {
		if _, err := adopted(deflated(t, plain)); !errors.Is(err, imported.ErrNoImport) || !errors.Is(err, eventcodec.ErrNewerVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReadImport reads imports as an owner does. An accepted import must be a history that can be stored.
func FuzzReadImport(f *testing.F) {
	f.Add(exported(f, &history.Started{Name: "fulfil", Execution: 1}))
	f.Add(exported(f, &history.Started{Name: "fulfil", Execution: 3, Recorded: []history.Recorded{{Execution: 2, Instance: "a"}}}, &history.Rewound{Execution: 4}))
	f.Add([]byte{0x94, 1, 0xa1, 'a', 0xa0, 0x92, 0xc0, 0xc0})
	f.Fuzz(func(t *testing.T, plain []byte) {
		events, err := adopted(deflated(t, plain))
		if err != nil {
			if !errors.Is(err, imported.ErrNoImport) {
				t.Error(err)
			}
			return
		}
		for i, e := range events {
			b, err := eventcodec.Encode(e)
			if err == nil {
				_, err = eventcodec.Decode(uint64(i)+1, b)
			}
			if err != nil {
				t.Errorf("event %d: %v", i+1, err)
			}
		}
		if _, broken := fold.Check(events); len(broken) > 0 {
			t.Error(broken)
		}
	})
}

func BenchmarkReadImport(b *testing.B) {
	events := []history.Event{&history.Started{Name: "fulfil", Execution: 1}}
	for n := uint64(2); n < 10_000; n += 2 {
		data := history.Payload{Type: history.TypeJSON, Data: fmt.Append(nil, strings.Repeat(fmt.Sprint(n), 30))}
		events = append(events, &history.ActivityScheduled{Name: "reserve", Queue: "reserve", Payload: data, Effect: fmt.Sprint("effect-", n), Attempt: 1},
			&history.ActivityCompleted{Scheduled: n, Result: data})
	}
	plain := exported(b, events...)
	p := deflated(b, plain)
	b.Logf("%d events, %d bytes", len(events), len(plain))
	for b.Loop() {
		events, err := adopted(p)
		if err != nil {
			b.Fatal(err)
		}
		s := &fold.State{}
		for _, e := range events { // the owner folds and encodes the history
			if err := s.Apply(e); err != nil {
				b.Fatal(err)
			}
			if _, err := eventcodec.Encode(e); err != nil {
				b.Fatal(err)
			}
		}
	}
}
