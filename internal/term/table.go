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
	Fold   int   // column, from 1, that is folded on a terminal which is too narrow; 0: none
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
		return t.draw(w, width(w))
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		_, _ = fmt.Fprintln(tw, strings.Join(row, "\t")) // Flush reports
	}
	return tw.Flush()
}

// leastFold is how narrow a folded column may become.
const leastFold = 16

// width is how many columns the terminal has; 0: not known.
func width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := xterm.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

func (t *Table) draw(w io.Writer, width int) error {
	p := table.NewWriter()
	p.SetStyle(table.StyleLight)
	p.AppendHeader(cells(t.Header))
	for _, row := range t.Rows {
		p.AppendRow(cells(row))
	}
	columns := make([]table.ColumnConfig, len(t.Header))
	for i := range columns {
		columns[i].Number = i + 1
	}
	for _, c := range t.Right {
		columns[c].Align = text.AlignRight
	}
	if room := width - t.others(); t.Fold > 0 && width > 0 {
		columns[t.Fold-1].WidthMax, columns[t.Fold-1].WidthMaxEnforcer = max(room, leastFold), text.WrapSoft
	}
	p.SetColumnConfigs(columns)
	_, err := fmt.Fprintln(w, p.Render())
	return err
}

// others is the width of all that is not in the folded column.
func (t *Table) others() int {
	sum := 1 // the last line
	for i := range t.Header {
		if sum += 3; i == t.Fold-1 { // a line and two spaces
			continue
		}
		widest := 0
		for _, row := range append([][]string{t.Header}, t.Rows...) {
			if i < len(row) {
				widest = max(widest, text.StringWidthWithoutEscSequences(row[i]))
			}
		}
		sum += widest
	}
	return sum
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
