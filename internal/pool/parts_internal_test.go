package pool

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
)

// TestProgressKeepsARequestOpen holds that a request stays open while the member reports progress, and times out when the reports end.
func TestProgressKeepsARequestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Caller{inbox: &transport.Inbox{}, open: make(map[string]*call)}
		token, ended := "", make(chan error, 2)
		c.call(time.Second, func(reply string) error { token = reply; return nil }, func(_ []byte, err error) { ended <- err })
		begun := time.Now()
		for range 5 {
			<-time.After(900 * time.Millisecond)
			if err := c.answered(token, progress); err != nil || len(ended) > 0 {
				t.Fatalf("the call is not open after %v: %v", time.Since(begun), err)
			}
		}
		if err := <-ended; !errors.Is(err, ErrUnanswered) || time.Since(begun) != 5500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := c.answered(token, progress); err != nil || len(ended) > 0 {
			t.Errorf("progress after the end: %v", err)
		}
	})
}

// TestPartsAreWholeOrNothing loses, repeats and reorders parts, and sends many incomplete messages.
func TestPartsAreWholeOrNothing(t *testing.T) {
	var a assembly
	now := time.UnixMilli(1)
	add := func(of string, parts ...[]byte) (got []byte) {
		for _, p := range parts {
			if b, _ := a.add(of, p, now); b != nil {
				got = b
			}
		}
		return got
	}
	message := bytes.Repeat([]byte("0123456789abcdef"), 3*partBytes/16)
	p, err := split(message)
	if err != nil || len(p) != 3 {
		t.Fatalf("%d parts, %v", len(p), err)
	}
	if got := add("a", p...); !bytes.Equal(got, message) {
		t.Errorf("%d bytes of %d", len(got), len(message))
	}
	for name, parts := range map[string][][]byte{"lost": {p[0], p[2]}, "repeated": {p[0], p[0], p[2]}, "in another order": {p[1], p[0], p[2]}} {
		if got := add("b", parts...); got != nil {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
	if got := add("b", p...); !bytes.Equal(got, message) {
		t.Error("an incomplete message blocks a later one with its id")
	}
	begin, more := wire.Encode((&part{of: maxParts, data: []byte("x")}).fields), wire.Encode((&part{at: 1, of: maxParts, data: message[:partBytes]}).fields)
	for i := range maxPartials + 1 {
		add(string(rune(i)), begin)
	}
	if len(a.all) != maxPartials {
		t.Errorf("%d incomplete messages", len(a.all))
	}
	maxKept := 0
	for i := range 2 * maxPartial / partBytes {
		if add(string(rune(i)), more); i%64 > 0 {
			continue
		}
		kept := 0
		for _, m := range a.all {
			kept += len(m.data)
		}
		maxKept = max(maxKept, kept)
	}
	if maxKept > maxPartial || len(a.all) < maxPartial/partBytes/2 {
		t.Errorf("%d bytes in %d messages are kept", maxKept, len(a.all))
	}
	if now = now.Add(time.Hour); add("c", p[:2]...) != nil || len(a.all) != 1 {
		t.Errorf("%d messages are kept for an hour", len(a.all))
	}
	if _, err := split(make([]byte, MaxMessage+1)); err == nil {
		t.Error("a message that is too large is accepted")
	}
}
