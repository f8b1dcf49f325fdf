package term

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sampleTable() *Table {
	t := &Table{Header: []string{"instance", "events"}, Right: []int{1}}
	t.Add("order-42", 7)
	t.Add("x", 12345)
	return t
}

func TestATableInAFileIsAlignedWithSpacesAndHasNoLines(t *testing.T) {
	var b bytes.Buffer
	if err := sampleTable().Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "instance  events\norder-42  7\nx         12345\n"; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestATableOnATerminalHasLinesAndNumbersToTheRight(t *testing.T) {
	var b bytes.Buffer
	if err := sampleTable().draw(&b, 0); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "│ order-42 │      7 │") {
		t.Errorf("got\n%s", got)
	}
}

func TestAColumnIsFoldedWhereTheTerminalIsTooNarrow(t *testing.T) {
	tab := &Table{Header: []string{"ID", "WHAT"}, Right: []int{0}, Fold: 2}
	tab.Add(7, "of 5: lost-select → stopped after 12ms on w-1")
	for width, lines := range map[int]int{0: 5, 80: 5, 40: 6, 1: 8} {
		var b bytes.Buffer
		if err := tab.draw(&b, width); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if n := strings.Count(got, "\n"); n != lines {
			t.Errorf("width %d: %d lines, want %d:\n%s", width, n, lines, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(line) - 1; width > 30 && n > width {
				t.Errorf("width %d: %d columns:\n%s", width, n, got)
			}
		}
	}
}

func TestTheValuesOfFieldsStandBelowOneAnother(t *testing.T) {
	var b bytes.Buffer
	f := &Fields{}
	f.Add("instance", "o-1")
	f.Add("id", "a\tb")
	if err := f.Write(&b); err != nil || b.String() != "instance  o-1\nid        a b\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestControlCharactersOfOthersDoNotReachTheTerminal(t *testing.T) {
	tab := &Table{Header: []string{"text"}}
	tab.Add("a\x1b[2Jb\nc\td\u0085e")
	if got := tab.Rows[0][0]; got != "a [2Jb c d e" {
		t.Errorf("got %q", got)
	}
}

func TestProgressWithoutATerminalIsALineNowAndThen(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 10, "packages")
	p.Set(1)
	p.Set(2)
	if b.Len() > 0 {
		t.Errorf("too early: %s", b.String())
	}
	p.said = p.said.Add(-plainEvery)
	p.began = p.began.Add(-time.Second)
	p.Set(5)
	p.Set(4) // late news
	p.Sayf("a worker is gone")
	p.Set(11)
	p.End()
	p.End()
	p.Set(3)
	want := regexp.MustCompile(`^5 of 10 packages in 1s?.*, \d/s, 1s left\na worker is gone\n10 of 10 packages in 1.*s, \d+/s\n$`)
	if !want.MatchString(b.String()) {
		t.Errorf("got\n%s", b.String())
	}
}

func TestTheBarIsTakenAwayForALineOfTextAndAtTheEnd(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 3, "packages")
	p.bar = newBar(&b, 3, "packages")
	p.Set(1)
	p.Sayf("a worker is gone")
	p.Set(3)
	p.End()
	if got := b.String(); !strings.Contains(got, "a worker is gone\n") || !strings.Contains(got, "0/3") || !strings.HasSuffix(got, "/s\n") {
		t.Errorf("got %q", got)
	}
}
