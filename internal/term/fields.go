package term

import (
	"fmt"
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// Fields is a list of names and values, one per line. On a terminal that is too narrow for two columns, each value stands below its name.
type Fields struct{ rows [][2]string }

// Add appends a line, formatting the value as fmt.Print does.
func (f *Fields) Add(name string, value any) {
	f.rows = append(f.rows, [2]string{name, printable(fmt.Sprint(value))})
}

// AddText appends a line, unless the text is empty.
func (f *Fields) AddText(name, text string) {
	if text != "" {
		f.Add(name, text)
	}
}

// Write writes the lines with aligned values, which are wrapped on a terminal.
func (f *Fields) Write(w io.Writer) error { return f.write(w, Width(w)) }

func (f *Fields) write(w io.Writer, width int) error {
	names := 0
	for _, row := range f.rows {
		names = max(names, uniseg.StringWidth(row[0])+gap)
	}
	below := width > 0 && names > width/2
	if below {
		names = gap
	}
	var b strings.Builder
	for _, row := range f.rows {
		name, lines := row[0], []string{row[1]}
		if width > 0 {
			lines = Wrap(row[1], max(width-names, minFold))
		}
		if below && name != "" {
			b.WriteString(name + "\n")
			name = ""
		}
		for _, line := range lines {
			pad := strings.Repeat(" ", names-uniseg.StringWidth(name))
			b.WriteString(strings.TrimRight(name+pad+line, " ") + "\n")
			name = ""
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Empty reports whether nothing has been added.
func (f *Fields) Empty() bool { return len(f.rows) == 0 }
