package term

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	xterm "golang.org/x/term"
)

const (
	gap     = 2  // spaces between columns
	minFold = 16 // minimum width of the folded column of a table
)

// Interactive reports whether w is a terminal that supports cursor movement.
func Interactive(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Width returns the number of columns of a terminal, or 0 if w is no terminal or its width is unknown.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !Interactive(w) {
		return 0
	}
	columns, _, err := xterm.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Table consists of rows under a header, with columns that are aligned with spaces.
//
// On a terminal the table fits its width: text is wrapped at spaces, and in the folded column also within words.
// If that does not suffice, each row becomes a list of fields, one per line.
type Table struct {
	Header []string
	Rows   [][]string
	Right  []int // right-aligned columns, from 0
	Fold   int   // column, from 1, whose words may be broken; 0: none
}

// Add appends a row, formatting each value as fmt.Print does.
func (t *Table) Add(values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = printable(fmt.Sprint(v))
	}
	t.Rows = append(t.Rows, row)
}

// Write writes the table. For a table without rows it writes only the header.
func (t *Table) Write(w io.Writer) error { return t.write(w, Width(w)) }

// WriteOr writes the table. For a table without rows it writes, on a terminal, the sentence none instead.
func (t *Table) WriteOr(w io.Writer, none string) error {
	if len(t.Rows) == 0 && Interactive(w) {
		return Line(w, none)
	}
	return t.Write(w)
}

func (t *Table) write(w io.Writer, width int) error {
	widths, fits := t.fit(width)
	if !fits {
		return t.records(w, width)
	}
	var b strings.Builder
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		cells, height := make([][]string, len(row)), 0
		for i, text := range row {
			cells[i] = Wrap(text, widths[i])
			height = max(height, len(cells[i]))
		}
		for line := range height {
			var out strings.Builder
			for i, cell := range cells {
				text := ""
				if line < len(cell) {
					text = cell[line]
				}
				pad := strings.Repeat(" ", max(widths[i]-uniseg.StringWidth(text), 0))
				if slices.Contains(t.Right, i) {
					text, pad = pad+text, ""
				}
				out.WriteString(text + pad + strings.Repeat(" ", gap))
			}
			b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit returns the widths of the columns, and whether the table fits. Width 0 is unlimited.
func (t *Table) fit(width int) (widths []int, fits bool) {
	full, least := make([]int, len(t.Header)), make([]int, len(t.Header)) // widths without wrapping, and minimum widths
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for i, text := range row {
			full[i] = max(full[i], uniseg.StringWidth(text))
			for word := range strings.FieldsSeq(text) {
				least[i] = max(least[i], uniseg.StringWidth(word))
			}
		}
	}
	left := width - gap*(len(full)-1)
	if width == 0 || sum(full) <= left {
		return full, true
	}
	if i := t.Fold - 1; i >= 0 {
		least[i] = min(least[i], minFold)
	}
	if left -= sum(least); left < 0 {
		return nil, false
	}
	for ; left > 0; left-- { // widen the narrowest column first, so that short texts are not wrapped
		narrow := -1
		for i := range least {
			if least[i] < full[i] && (narrow < 0 || least[i] < least[narrow]) {
				narrow = i
			}
		}
		if narrow < 0 {
			break
		}
		least[narrow]++
	}
	return least, true
}

// records writes each row as fields, with an empty line between rows.
func (t *Table) records(w io.Writer, width int) error {
	for i, row := range t.Rows {
		f := &Fields{}
		for j, text := range row {
			if text != "" {
				f.Add(t.Header[j], text)
			}
		}
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := f.write(w, width); err != nil {
			return err
		}
	}
	if len(t.Rows) == 0 {
		_, err := fmt.Fprintln(w, strings.Join(Wrap(strings.Join(t.Header, "  "), width), "\n"))
		return err
	}
	return nil
}

func sum(all []int) (n int) {
	for _, v := range all {
		n += v
	}
	return n
}

// Wrap breaks a text into lines of at most width columns: at spaces if possible, otherwise within a word.
func Wrap(text string, width int) []string {
	if uniseg.StringWidth(text) <= width {
		return []string{text}
	}
	var lines []string
	line, used := "", 0
	for word := range strings.FieldsSeq(text) {
		n := uniseg.StringWidth(word)
		if line != "" && used+1+n <= width {
			line, used = line+" "+word, used+1+n
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		line, used = word, n
		for used > width {
			var head string
			head, line = cut(line, width)
			lines, used = append(lines, head), uniseg.StringWidth(line)
		}
	}
	return append(lines, line)
}

// Line writes a line of text, which is wrapped on a terminal.
func Line(w io.Writer, text string) error {
	if width := Width(w); width > 0 {
		text = strings.Join(Wrap(text, width), "\n")
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// cut splits a word after at most width columns, and at least one character.
func cut(word string, width int) (head, tail string) {
	tail = word
	for state, used := -1, 0; tail != ""; {
		cluster, rest, n, next := uniseg.FirstGraphemeClusterInString(tail, state)
		if head != "" && used+n > width {
			break
		}
		head, tail, used, state = head+cluster, rest, used+n, next
	}
	return head, tail
}

// printable replaces control characters, so that foreign text cannot move the cursor or break the columns.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
}
