package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	xterm "golang.org/x/term"
)

// Interactive reports whether w is a terminal that draws.
func Interactive(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Table is rows under a header.
type Table struct {
	Header []string
	Rows   [][]string
	Right  []int // columns, from 0, that are aligned to the right on a terminal
}

// Add appends a row, formatting each value as fmt.Print does.
func (t *Table) Add(values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = printable(fmt.Sprint(v))
	}
	t.Rows = append(t.Rows, row)
}

// Write draws the table for a terminal, and elsewhere aligns it with spaces. A table
// without rows is only its header.
func (t *Table) Write(w io.Writer) error {
	if Interactive(w) {
		return t.draw(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		_, _ = fmt.Fprintln(tw, strings.Join(row, "\t")) // Flush reports
	}
	return tw.Flush()
}

func (t *Table) draw(w io.Writer) error {
	p := table.NewWriter()
	p.SetStyle(table.StyleLight)
	p.AppendHeader(cells(t.Header))
	for _, row := range t.Rows {
		p.AppendRow(cells(row))
	}
	columns := make([]table.ColumnConfig, len(t.Right))
	for i, c := range t.Right {
		columns[i] = table.ColumnConfig{Number: c + 1, Align: text.AlignRight}
	}
	p.SetColumnConfigs(columns)
	_, err := fmt.Fprintln(w, p.Render())
	return err
}

func cells(row []string) table.Row {
	r := make(table.Row, len(row))
	for i, s := range row {
		r[i] = s
	}
	return r
}

// printable keeps what others wrote from moving the cursor or breaking the columns.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
}
