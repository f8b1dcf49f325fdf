package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl/internal/term"
)

const (
	minColumns = 70 // minimum width of a terminal for kong's two columns
	flagIndent = 6  // indentation of a flag without a short form in kong's help; the second column is indented further
)

// help returns the option that prints the help of a command, on a narrow terminal in one column.
func help(width int) kong.Option {
	if width == 0 || width >= minColumns {
		return kong.Help(kong.DefaultHelpPrinter)
	}
	return kong.Help(func(options kong.HelpOptions, c *kong.Context) error {
		var b bytes.Buffer
		out := c.Stdout
		c.Stdout = &b
		err := kong.DefaultHelpPrinter(options, c)
		if c.Stdout = out; err != nil {
			return err
		}
		_, err = io.WriteString(out, narrow(b.String(), width))
		return err
	})
}

// narrow moves the second column of a help text below the first one.
func narrow(help string, width int) string {
	var b strings.Builder
	text, indent := "", 0
	flush := func() {
		if text != "" {
			left := strings.Repeat(" ", indent)
			b.WriteString(left + strings.Join(term.Wrap(text, width-indent), "\n"+left) + "\n")
		}
		text = ""
	}
	for line := range strings.Lines(help) {
		body := strings.TrimSpace(line)
		depth := strings.Index(line, body)
		switch {
		case body == "":
			flush()
			b.WriteByte('\n')
		case depth > flagIndent, depth == 0 && indent == 0 && text != "": // continues the text
			text += " " + body
		case depth == 0:
			flush()
			text, indent = body, 0
		default:
			flush()
			first, second, _ := strings.Cut(body, "    ")
			text, indent = first, 2
			flush()
			text, indent = strings.TrimSpace(second), flagIndent
		}
	}
	flush()
	return b.String()
}
