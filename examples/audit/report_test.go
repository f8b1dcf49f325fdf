package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// write performs all steps of a report.
func write(t *testing.T, s Spool, dir string, list Page, all []Summary) string {
	t.Helper()
	sum := Totals{Problems: len(list.Problems)}
	for _, x := range all {
		sum.Add(x)
	}
	parts := Split(list.Problems, all)
	for i, p := range parts {
		if err := s.WritePart(i, p); err != nil {
			t.Fatal(err)
		}
	}
	file, err := s.WriteReport(dir, len(parts), sum)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReportHasThePackagesInOrderAndTheirSum(t *testing.T) {
	root := sample(t)
	list, all := inspectAll(t, root)
	list.Problems = []Problem{{Path: "locked", Text: "permission denied"}}
	s := Spool{Out: filepath.Join(t.TempDir(), "new", "dir"), Run: "one"}
	file := write(t, s, "/sample", list, all)
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Packages, all) || !reflect.DeepEqual(r.Problems, list.Problems) {
		t.Errorf("the report lacks findings: %s", b)
	}
	table, err := os.ReadFile(filepath.Join(s.Out, TableFile))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "table.golden", table)
	left, err := os.ReadDir(s.Out)
	if err != nil || len(left) != 2 {
		t.Errorf("leftovers: %v, %v", left, err)
	}
}

func TestStepsOfAReportMayBeRepeatedConcurrently(t *testing.T) {
	root := sample(t)
	list, all := inspectAll(t, root)
	s := Spool{Out: t.TempDir(), Run: "one"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { write(t, s, root, list, all) })
	}
	wg.Wait()
	for range 2 {
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.WriteReport(root, 1, Totals{}); err == nil || !strings.Contains(err.Error(), "part 0") {
		t.Errorf("a report without its parts: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Out, ReportFile)); err != nil {
		t.Errorf("the late repeat removed the report: %v", err)
	}
}

func TestTwoAuditsInOneDirectoryKeepTheirPartsApart(t *testing.T) {
	out := t.TempDir()
	a, b := Spool{Out: out, Run: "a"}, Spool{Out: out, Run: "b"}
	for _, s := range []Spool{a, b} {
		if err := s.WritePart(0, Part{Summaries: []Summary{{Package: s.Run}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Sweep(); err != nil {
		t.Fatal(err)
	}
	if p, err := b.readPart(0); err != nil || p.Summaries[0].Package != "b" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestFindingsAreSplitIntoPartsThatFitAndLoseNothing(t *testing.T) {
	var all []Summary
	for i := range 3_000 {
		s := Summary{Package: fmt.Sprintf("p%d", i)}
		if i == 1_500 {
			for range maxProblems {
				s.Problems = append(s.Problems, Problem{Path: strings.Repeat("p", 255), Text: strings.Repeat("x", maxProblemText)})
			}
		}
		all = append(all, s)
	}
	parts := Split([]Problem{{Path: "x"}}, all)
	var got []Summary
	for i, p := range parts {
		if b, err := json.Marshal(p); err != nil || len(b) > 512<<10 {
			t.Errorf("part %d has %d bytes, %v", i, len(b), err)
		}
		got = append(got, p.Summaries...)
	}
	if !reflect.DeepEqual(got, all) || len(parts[0].Problems) != 1 {
		t.Errorf("%d summaries in %d parts, want %d", len(got), len(parts), len(all))
	}
	if n := len(Split(nil, nil)); n != 1 {
		t.Errorf("no findings make %d parts", n)
	}
}
