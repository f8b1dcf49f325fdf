package term

import (
	"fmt"
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// Fields is a list of names and values, one per line.
type Fields struct{ rows [][2]string }

// Add appends a line, formatting the value as fmt.Print does.
func (f *Fields) Add(name string, value any) {
	f.rows = append(f.rows, [2]string{name, printable(fmt.Sprint(value))})
}

// Write aligns the values, and wraps them on a terminal.
func (f *Fields) Write(w io.Writer) error { return f.write(w, Width(w)) }

func (f *Fields) write(w io.Writer, width int) error {
	names := 0
	for _, row := range f.rows {
		names = max(names, uniseg.StringWidth(row[0])+gap)
	}
	var b strings.Builder
	for _, row := range f.rows {
		lines := []string{row[1]}
		if width > 0 {
			lines = Wrap(row[1], max(width-names, minFold))
		}
		for i, line := range lines {
			name := row[0]
			if i > 0 {
				name = ""
			}
			pad := strings.Repeat(" ", names-uniseg.StringWidth(name))
			b.WriteString(strings.TrimRight(name+pad+line, " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Empty reports whether nothing has been added.
func (f *Fields) Empty() bool { return len(f.rows) == 0 }
