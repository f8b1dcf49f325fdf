package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// The files of a report, in the requested directory.
const (
	ReportFile = "report.json"
	TableFile  = "report.txt"
	partsDir   = ".parts"
)

// Report is the content of ReportFile.
type Report struct {
	Dir      string    `json:"dir"`
	Totals   Totals    `json:"totals"`
	Problems []Problem `json:"problems,omitempty"` // directories that could not be read; files are listed with their package
	Packages []Summary `json:"packages"`           // in the order of the listing
}

// Spool is where one audit stores its parts and writes its report. Run distinguishes audits that share a directory. Its methods may be
// called again, also concurrently by another process: files are written to a temporary name and renamed.
type Spool struct {
	Out string `json:"out"` // directory of the report, created if it is missing
	Run string `json:"run"` // one path component
}

func (s Spool) parts() string { return filepath.Join(s.Out, partsDir, s.Run) }

func (s Spool) part(i int) string { return filepath.Join(s.parts(), fmt.Sprintf("%06d.json", i)) }

// WritePart stores part i, counted from 0.
func (s Spool) WritePart(i int, p Part) error {
	return s.replace(s.part(i), func(w io.Writer) error { return json.NewEncoder(w).Encode(p) })
}

// WriteReport assembles the n parts, writes ReportFile and TableFile, and returns the path of the former. The parts stay until Sweep.
func (s Spool) WriteReport(dir string, n int, t Totals) (string, error) {
	r := Report{Dir: dir, Totals: t, Packages: []Summary{}}
	for i := range n {
		p, err := s.readPart(i)
		if err != nil {
			return "", err
		}
		r.Problems = append(r.Problems, p.Problems...)
		r.Packages = append(r.Packages, p.Summaries...)
	}
	file := filepath.Join(s.Out, ReportFile)
	if err := s.replace(file, r.writeJSON); err != nil {
		return "", err
	}
	return file, s.replace(filepath.Join(s.Out, TableFile), r.WriteTable)
}

func (s Spool) readPart(i int) (Part, error) {
	var p Part
	b, err := os.ReadFile(s.part(i))
	if err != nil {
		return p, fmt.Errorf("audit: part %d of the report is missing: %w", i, err)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("audit: part %d of the report: %w", i, err)
	}
	return p, nil
}

// Sweep removes the parts.
func (s Spool) Sweep() error {
	if err := os.RemoveAll(s.parts()); err != nil {
		return fmt.Errorf("audit: remove the parts of the report: %w", err)
	}
	_ = os.Remove(filepath.Join(s.Out, partsDir)) // unless another audit still has parts there
	return nil
}

func (r Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the totals, the top offenders and the problems for a reader.
func (r Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(tw, format, args...) } // Flush reports
	t := r.Totals
	p("Audit of %s\n\n", r.Dir)
	p("packages\t%d\nfiles\t%d\nlines\t%d\nexported names\t%d\n", t.Packages, t.Files, t.Lines, t.Exported)
	p("functions\t%d\nmean complexity\t%.2f\nTODO and FIXME\t%d\nproblems\t%d\n",
		t.Functions, float64(t.Complexity)/float64(max(t.Functions, 1)), t.Marks, t.Problems)
	if len(t.Offenders) > 0 {
		p("\nThe most complex functions\n\ncomplexity\tfunction\tplace\n")
		for _, h := range t.Offenders {
			p("%d\t%s\t%s:%d\n", h.Complexity, h.Function, h.File, h.Line)
		}
	}
	r.problems(p)
	return tw.Flush()
}

func (r Report) problems(p func(string, ...any)) {
	if r.Totals.Problems == 0 {
		return
	}
	p("\nNot read, or not wholly\n\n")
	for _, x := range r.Problems {
		p("%s\t%s\n", x.Path, x.Text)
	}
	for _, s := range r.Packages {
		for _, x := range s.Problems {
			p("%s\t%s\n", x.Path, x.Text)
		}
		if s.Unnamed > 0 {
			p("%s\tand %d more\n", s.Package, s.Unnamed)
		}
	}
}

// replace writes a temporary file and renames it, so that readers see either the old or the new content. A file that a crash leaves is among
// the parts, and is removed with them.
func (s Spool) replace(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(s.parts(), 0o750); err != nil {
		return fmt.Errorf("audit: make room for the report: %w", err)
	}
	f, err := os.CreateTemp(s.parts(), "aside-*")
	if err != nil {
		return fmt.Errorf("audit: write %s: %w", name, err)
	}
	w := bufio.NewWriter(f)
	err = errors.Join(write(w), w.Flush(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("audit: write %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
