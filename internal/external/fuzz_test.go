package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
)

const maxError = 6000 // bytes of an error; a quote of maxQuote bytes may be escaped

// FuzzResult reads any output of a program, or any answer of an endpoint, as a result. A rejection is final, typed and has a bounded text. An
// accepted result is JSON of a bounded size, and is accepted again.
func FuzzResult(f *testing.F) {
	for _, out := range []string{"", " \n", `{"a":1}` + "\n", `{"a":1} x`, "hello", "\xff", "\"\xff\"", `"\ud800"`, strings.Repeat("[", 20_000), strings.Repeat("x", maxBytes+1)} {
		f.Add([]byte(out))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		got, err := result(out, false, "program")
		if err != nil {
			failed, is := errors.AsType[*failure](err)
			if !is || !failed.final || !errors.Is(err, pawl.ErrTooLarge) && !errors.Is(err, pawl.ErrUndecodable) || len(err.Error()) > maxError {
				t.Errorf("%T, %d bytes: %.200v", err, len(err.Error()), err)
			}
			return
		}
		if len(got) > maxBytes || len(got) > 0 && !json.Valid(got) || !utf8.Valid(got) {
			t.Errorf("%.200q is accepted as %.200q", out, got)
		}
		if again, err := result(got, false, "program"); err != nil || string(again) != string(got) {
			t.Errorf("%.200q became %.200q, %v", got, again, err)
		}
	})
}

// FuzzDescribe reads any output of a failed program, or any answer of an endpoint, as an error object. The text of the failure is bounded, its
// code is valid and not one of Pawl's own, and its data can be stored.
func FuzzDescribe(f *testing.F) {
	for _, out := range []string{
		`{"error":{"message":"declined","code":"card-declined","retryable":false,"data":{"a":[1]}}}`, `{"error":{"code":"pawl.cancelled","retryable":true}}`, `{"error":null}`, `{"error":{}}`,
		`{"error":{"data":null}}`, `{"error":{"message":"\u001b[2J\ud800"}}`, `{"error":"text"}`, `{"error":{"code":"a b"}}`, `[`, "", `{"error":{"message":"` + strings.Repeat("m", 20_000) + `"}}`,
		`{"error":{"code":"` + strings.Repeat("c", 20_000) + `"}}`, "{\"error\":{\"data\":\"\xff\"}}", `{"error":{"data":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}`, `{"ERROR":{"Message":"x"}}`,
	} {
		f.Add([]byte(out), "120")
	}
	f.Add([]byte("{}"), "-9223372036854775808")
	f.Add([]byte("{}"), "Fri, 31 Dec 9999 23:59:59 GMT")
	f.Fuzz(func(t *testing.T, body []byte, retry string) {
		if d := retryAfter(retry, time.Unix(1_790_000_000, 0)); d < 0 {
			t.Errorf("Retry-After %q is %s", retry, d)
		}
		failed := (&failure{error: errors.New("exit code 1")}).describe(body)
		if n := len(failed.Error()); n == 0 || n > maxQuote+10 {
			t.Errorf("a text of %d bytes", n)
		}
		stored := author.ToFailure(fmt.Errorf("work: %w", failed))
		if len(stored.Message) > maxError || strings.HasPrefix(stored.Code, "pawl.") || stored.Code != "" && pawl.ValidateName(stored.Code) != nil {
			t.Errorf("stored as %.300q with the code %.200q", stored.Message, stored.Code)
		}
		if stored.Permanent != failed.final {
			t.Errorf("permanent: %t, final: %t", stored.Permanent, failed.final)
		}
	})
}

// FuzzLines logs any output of a program, in two parts. A line of the log is bounded.
func FuzzLines(f *testing.F) {
	f.Add([]byte("hello\nwor"), []byte("ld\n\n\r\nend"))
	f.Add([]byte(strings.Repeat("x", maxLine)), []byte("\xff\n"))
	f.Add([]byte("\x1b[2J\x00\n"), []byte(" \n"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var log strings.Builder
		l := &lines{log: slog.New(slog.NewTextHandler(&log, nil))}
		for _, part := range [][]byte{first, second} {
			if n, err := l.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		l.flush()
		got := strings.Count(log.String(), "\n")
		if newlines := strings.Count(string(first)+string(second), "\n"); got > newlines+1 || len(l.line) != 0 || cap(l.line) > 4*maxLine {
			t.Errorf("%d lines of %d, and %d bytes are held", got, newlines, cap(l.line))
		}
		for line := range strings.Lines(log.String()) {
			if len(line) > 10*maxLine+200 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	})
}
