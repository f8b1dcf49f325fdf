package main

import (
	"fmt"
	"io"
	"time"

	"github.com/pawlrun/pawl/examples/audit"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
)

// demoResult is the last line of the output with --json.
type demoResult struct {
	Packages   int    `json:"packages"`
	Files      int    `json:"files"`
	Lines      int    `json:"lines"`
	Activities int    `json:"activities"` // activities that ended
	Retried    int    `json:"retried"`    // activities that ran more than once
	Failed     int    `json:"failed"`     // activities that failed
	ElapsedMS  int64  `json:"elapsed_ms"`
	Report     string `json:"report"`
}

func (d *demo) show(w io.Writer, r audit.Result, took time.Duration, asJSON bool) error {
	t := r.Totals
	if asJSON {
		return writeJSON(w, demoResult{
			Packages: t.Packages, Files: t.Files, Lines: t.Lines,
			Activities: d.activities, Retried: d.retried, Failed: d.failed,
			ElapsedMS: took.Milliseconds(), Report: r.Report,
		})
	}
	top := &term.Table{Header: []string{"COMPLEXITY", "FUNCTION", "PLACE"}, Right: []int{0}, Fold: 3}
	for i, h := range t.Offenders {
		if i == 10 {
			break
		}
		top.Add(h.Complexity, h.Function, fmt.Sprintf("%s:%d", h.File, h.Line))
	}
	if len(top.Rows) > 0 {
		if err := top.Write(w); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(w) // the next write reports an error
	}
	loss := "No worker was killed: the audit ended too soon."
	if d.killed != "" {
		loss = fmt.Sprintf("%s was killed during the audit; other workers inspected %d of its packages again.", d.killed, d.taken)
	}
	problems := ""
	if t.Problems > 0 {
		problems = fmt.Sprintf(", %s (named in the report)", diagnose.Counted(t.Problems, "problem"))
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s, %s TODO and FIXME%s.\n%d activities, %d failed. %s\nReport: %s (%s)\n",
		diagnose.Counted(t.Packages, "package"), diagnose.Counted(t.Files, "file"), diagnose.Counted(t.Lines, "line"), diagnose.Number(t.Marks), problems,
		d.activities, d.failed, loss, r.Report, diagnose.Duration(took))
	return err
}
