package term

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Fields is what is to be told about one thing: names and values, a line each.
type Fields struct{ rows [][2]string }

// Add appends a line, formatting the value as fmt.Print does.
func (f *Fields) Add(name string, value any) {
	f.rows = append(f.rows, [2]string{name, printable(fmt.Sprint(value))})
}

// Write aligns the values.
func (f *Fields) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range f.rows {
		_, _ = fmt.Fprintln(tw, strings.Join(row[:], "\t")) // Flush reports
	}
	return tw.Flush()
}

// Empty reports whether nothing has been added.
func (f *Fields) Empty() bool { return len(f.rows) == 0 }
