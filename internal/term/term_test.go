package term

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTableAlignsColumnsWithSpaces(t *testing.T) {
	tab := &Table{Header: []string{"INSTANCE", "EVENTS", "STATUS"}, Right: []int{1}}
	tab.Add("order-42", 7, "")
	tab.Add("x", 12345, "failed")
	var b bytes.Buffer
	if err := tab.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "INSTANCE  EVENTS  STATUS\norder-42       7\nx          12345  failed\n"; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestTableFitsTheWidthOfTheTerminal(t *testing.T) {
	tab := &Table{Header: []string{"ID", "EVENT", "TIME OF THE EVENT", "DETAILS"}, Right: []int{0}, Fold: 4}
	tab.Add(7, "ActivityCancelRequested", "14:24:30.272", "of 5: lost-select → \u505c\u6b62 after 12ms on w-1, "+strings.Repeat("x", 50))
	tab.Add(8, "Cancelled", "", "by ops")
	for _, width := range []int{200, 80, 60, 40} {
		var b bytes.Buffer
		if err := tab.write(&b, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line has %d columns:\n%s", width, n, b.String())
			}
		}
		got := strings.Join(strings.Fields(b.String()), "")
		if asFields := !strings.HasPrefix(b.String(), "ID  EVENT"); asFields != (width < 60) || !strings.Contains(got, "\u505c\u6b62") || strings.Count(got, "x") != 50 {
			t.Errorf("width %d: fields %v:\n%s", width, asFields, b.String())
		}
	}
}

func TestFieldsAreAlignedAndWrapped(t *testing.T) {
	f := &Fields{}
	f.Add("instance", "o-1")
	f.Add("id", "a\tb is quite a long text")
	for width, want := range map[int]string{
		0:  "instance  o-1\nid        a b is quite a long text\n",
		26: "instance  o-1\nid        a b is quite a\n          long text\n",
		19: "instance\n  o-1\nid\n  a b is quite a\n  long text\n",
	} {
		var b bytes.Buffer
		if err := f.write(&b, width); err != nil || b.String() != want {
			t.Errorf("width %d: got\n%s, %v", width, b.String(), err)
		}
	}
}

func TestControlCharactersDoNotReachTheTerminal(t *testing.T) {
	tab := &Table{Header: []string{"TEXT"}}
	tab.Add("a\x1b[2Jb\nc\td\u0085e")
	if got := tab.Rows[0][0]; got != "a [2Jb c d e" {
		t.Errorf("got %q", got)
	}
}

func TestProgressWithoutTerminalIsALineAtIntervals(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 10, "packages")
	p.Set(1)
	p.Set(2)
	if b.Len() > 0 {
		t.Errorf("too early: %s", b.String())
	}
	p.last = p.last.Add(-plainInterval)
	p.began = p.began.Add(-time.Second)
	p.Set(5)
	p.Set(4) // ignored
	p.Printf("a worker is gone")
	p.Set(11)
	p.End()
	p.End()
	p.Set(3)
	want := regexp.MustCompile(`^5 of 10 packages in 1s?.*, \d/s, 1s left\na worker is gone\n10 of 10 packages in 1.*s, \d+/s\n$`)
	if !want.MatchString(b.String()) {
		t.Errorf("got\n%s", b.String())
	}
}

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	for _, width := range []int{80, 40, 20} {
		var b bytes.Buffer
		p := NewProgress(&b, 627, "packages")
		p.width = func() int { return width }
		p.StartAt(205)
		p.last = time.Time{}
		p.Set(410)
		p.Printf("worker-2 took over a package with a name that is longer than the terminal is wide from worker-1")
		drawn := b.String()
		for line := range strings.SplitSeq(strings.ReplaceAll(drawn, clearLine, "\n"), "\n") {
			if n := uniseg.StringWidth(line); n > width {
				t.Errorf("width %d: %d columns in %q", width, n, line)
			}
		}
		if bar := strings.Contains(drawn, "█░"); bar != (width == 80) || !strings.Contains(drawn, "410/627") {
			t.Errorf("width %d: %q", width, drawn)
		}
		p.Set(627)
		p.End()
		if tail, ok := strings.CutPrefix(b.String(), drawn); !ok || !strings.HasPrefix(tail, clearLine+"627 of 627 packages in ") || !strings.HasSuffix(tail, "/s\n") {
			t.Errorf("width %d: end %q", width, b.String())
		}
	}
}
