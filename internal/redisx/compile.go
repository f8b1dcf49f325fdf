package redisx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	errHeader = errors.New("malformed header")
	fixedName = regexp.MustCompile(`^[a-z][a-z0-9_]*#?$`)
	listName  = regexp.MustCompile(`^([a-z][a-z0-9_]*)(?:=([a-z][a-z0-9_]*))?(?:\(([a-z0-9_ ]+)\))?([*#])$`)
	listWord  = regexp.MustCompile(`[^\s(]+(?:\([^)]*\))?[*#]?`)
	header    = regexp.MustCompile(`^--! +(keys|args|reply) *(.*)$`)
)

// compiler holds the declarations of one script.
type compiler struct {
	keys, args section
}

// headers returns the declarations of a source: for each one the line, its kind, and its content.
func headers(src string) (all [][]string) {
	for line := range strings.Lines(src) {
		if strings.HasPrefix(line, "--!") {
			if m := header.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
				all = append(all, m)
			}
		}
	}
	return all
}

// declare parses the header of a source. It parses the arguments first, because lists of keys refer to lists of arguments.
func (c *compiler) declare(src string) error {
	lines := headers(src)
	slices.SortStableFunc(lines, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	for _, m := range lines {
		var d *section
		switch m[1] {
		case "keys":
			d, c.keys.array, c.keys.last = &c.keys, "KEYS", "#KEYS"
		case "args":
			d, c.args.array, c.args.last = &c.args, "ARGV", "#ARGV"
		default:
			continue
		}
		if d.text != "" {
			return fmt.Errorf("%w: %s are declared twice", errHeader, m[1])
		}
		if err := d.parse(m[2], c.args.lists); err != nil {
			return err
		}
	}
	return nil
}

func (d *section) parse(text string, args []list) error {
	d.text = text
	fixed, lists, _ := strings.Cut(text, "|")
	for f := range strings.FieldsSeq(fixed) {
		if !fixedName.MatchString(f) {
			return fmt.Errorf("%w: %q", errHeader, f)
		}
		d.fixed = append(d.fixed, f)
	}
	words := listWord.FindAllString(lists, -1)
	for i, w := range words {
		m := listName.FindStringSubmatch(w)
		if m == nil || m[4] == "#" && (d.array == "KEYS" || m[3] != "" || i == len(words)-1) || d.array == "KEYS" && (m[2] == "") != (i == len(words)-1) || d.array == "ARGV" && m[2] != "" {
			return fmt.Errorf("%w: %q", errHeader, w)
		}
		as := slices.IndexFunc(args, func(l list) bool { return l.name == m[2] })
		if m[2] != "" && as < 0 || i == maxLists {
			return fmt.Errorf("%w: %q", errHeader, w)
		}
		d.lists = append(d.lists, list{name: m[1], as: as, fields: strings.Fields(m[3]), empty: m[4] == "#"})
	}
	return nil
}

// place returns the Lua expression of the element of the section at an index, from 1.
func (d *section) place(index int) string { return d.array + "[" + d.from + strconv.Itoa(index) + "]" }

// locals returns Lua declarations of the parts of a section that the script uses, on one line.
func (d *section) locals(args []list, uses func(string) bool) string {
	var names, values []string
	add := func(name, format string, args ...any) {
		if uses(name) {
			names, values = append(names, name), append(values, fmt.Sprintf(format, args...))
		}
	}
	for i, f := range d.fixed {
		if name, ok := strings.CutSuffix(f, "#"); ok {
			add(name, "num(%s)", d.place(i+1))
		} else {
			add(f, "%s", d.place(i+1))
		}
	}
	var out strings.Builder
	if len(names) > 0 {
		fmt.Fprintf(&out, "local %s = %s ", strings.Join(names, ", "), strings.Join(values, ", "))
	}
	first := len(d.fixed)
	if d.array == "ARGV" && len(d.lists) > 1 {
		var lengths []string
		for _, l := range d.lists[:len(d.lists)-1] {
			lengths = append(lengths, l.name+"_n")
		}
		first++
		fmt.Fprintf(&out, "local %s = counts(%s) ", strings.Join(lengths, ", "), d.place(first))
	}
	at := d.from + strconv.Itoa(first)
	for i, l := range d.lists {
		if i == len(d.lists)-1 && !uses(l.name) {
			break
		}
		if l.empty {
			continue
		}
		fmt.Fprintf(&out, "local %s_at = %s ", l.name, at)
		switch {
		case i == len(d.lists)-1 && !uses("#"+l.name):
		case i == len(d.lists)-1 && l.width() == 1:
			fmt.Fprintf(&out, "local %s_n = %s - %s_at ", l.name, d.last, l.name)
		case i == len(d.lists)-1:
			fmt.Fprintf(&out, "local %s_n = (%s - %s_at) / %d ", l.name, d.last, l.name, l.width())
		case l.as >= 0:
			fmt.Fprintf(&out, "local %s_n = %s_n ", l.name, args[l.as].name)
		}
		at = l.name + "_at + " + l.name + "_n"
		if l.width() > 1 {
			at = fmt.Sprintf("%s_at + %d * %s_n", l.name, l.width(), l.name)
		}
	}
	return strings.TrimSuffix(out.String(), " ")
}

// names returns the words of a script that may be uses of declared names, and those with a # before them together with it. A word after a
// point is a field, and one after a quote is text. The words are collected once, because a search for each name would take most of the
// startup time.
func names(src string) map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(src) {
		line, _, _ = strings.Cut(line, "--")
		for i := 0; i < len(line); {
			end := i
			for end < len(line) && inWord(line[end]) {
				end++
			}
			if end == i {
				i++
				continue
			}
			if front := line[:i]; !strings.HasSuffix(front, ".") && !strings.HasSuffix(front, "'") {
				all[line[i:end]] = true
				if strings.HasSuffix(front, "#") {
					all["#"+line[i:end]] = true
				}
			}
			i = end
		}
	}
	return all
}

// word returns the name at the beginning of a text, or "".
func word(text string) string {
	end := 0
	for end < len(text) && inWord(text[end]) && (end > 0 || text[0] < '0' || text[0] > '9') {
		end++
	}
	return text[:end]
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// compile replaces the header of src by local declarations, and the uses of lists by indexes. named contains the words of the script.
func (c *compiler) compile(src string, named map[string]bool) (string, error) {
	lengths := make(map[string]bool) // lists of arguments that determine the lengths of lists of keys
	for _, l := range c.keys.lists {
		if l.as >= 0 {
			lengths[c.args.lists[l.as].name], lengths["#"+c.args.lists[l.as].name] = true, true
		}
	}
	uses := func(name string) bool { return lengths[name] || named[name] }
	body, err := c.expand(src)
	if err != nil {
		return "", err
	}
	locals := ""
	last := ""
	for _, m := range headers(src) {
		switch m[1] {
		case "args": // before the keys, whose lists may have the lengths of lists of arguments
			locals, last = strings.TrimSpace(c.args.locals(nil, uses)+" "+locals), m[0]
		case "keys":
			locals, last = strings.TrimSpace(locals+" "+c.keys.locals(c.args.lists, uses)), m[0]
		default:
		}
	}
	if last != "" {
		body = strings.Replace(body, last, locals, 1)
	}
	return body, nil
}

// find returns the list with a name, and its section.
func (c *compiler) find(name string) (*section, list, bool) {
	for _, d := range []*section{&c.keys, &c.args} {
		if i := slices.IndexFunc(d.lists, func(l list) bool { return l.name == name }); i >= 0 {
			return d, d.lists[i], true
		}
	}
	return nil, list{}, false
}

// expand replaces the uses of lists.
func (c *compiler) expand(src string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(src); {
		switch {
		case strings.HasPrefix(src[i:], "--"):
			end := len(src)
			if n := strings.IndexByte(src[i:], '\n'); n >= 0 {
				end = i + n
			}
			out.WriteString(src[i:end])
			i = end
		case src[i] == '\'':
			end := i + 1
			for end < len(src) && src[end] != '\'' {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			out.WriteString(src[i:min(end+1, len(src))])
			i = end + 1
		default:
			name := word(src[i:])
			text, next, err := c.use(src, i, name, out.String())
			if err != nil {
				return "", err
			}
			if text == "" && next == i {
				text, next = src[i:i+max(len(name), 1)], i+max(len(name), 1)
			}
			if strings.HasSuffix(out.String(), "#") && strings.HasSuffix(text, "_n") && text != name {
				kept := strings.TrimSuffix(out.String(), "#")
				out.Reset()
				out.WriteString(kept)
			}
			out.WriteString(text)
			i = next
		}
	}
	return out.String(), nil
}

// use expands the use of a list, or the unpack of one, at an offset; before is the expanded text before it.
func (c *compiler) use(src string, at int, name, before string) (text string, next int, _ error) {
	after := at + len(name)
	if name == "unpack" && strings.HasPrefix(src[after:], "(") {
		end := closing(src, after)
		args := strings.SplitN(src[after+1:end], ",", 3)
		if d, l, ok := c.find(strings.TrimSpace(args[0])); ok && len(args) == 3 && l.width() == 1 {
			from, err := c.expand(strings.TrimSpace(args[1]))
			if err != nil {
				return "", at, err
			}
			to, err := c.expand(strings.TrimSpace(args[2]))
			return fmt.Sprintf("unpack(%s, %s_at + %s, %s_at + %s)", d.array, l.name, from, l.name, to), end + 1, err
		}
		return "", at, nil
	}
	d, l, ok := c.find(name)
	if !ok || strings.HasSuffix(before, ".") {
		return "", at, nil
	}
	if strings.HasSuffix(before, "#") {
		return name + "_n", after, nil
	}
	if !strings.HasPrefix(src[after:], "[") {
		return "", at, fmt.Errorf("%w: list %s is used without an index", errHeader, name)
	}
	end := closing(src, after)
	index, err := c.expand(src[after+1 : end])
	if err != nil {
		return "", at, err
	}
	if l.width() == 1 {
		return fmt.Sprintf("%s[%s_at + %s]", d.array, name, index), end + 1, nil
	}
	field := word(strings.TrimPrefix(src[end+1:], "."))
	i := slices.Index(l.fields, field)
	if i < 0 {
		return "", at, fmt.Errorf("%w: list %s has no field %q", errHeader, name, field)
	}
	place := fmt.Sprintf("%s[%s_at + %d * (%s)]", d.array, name, l.width(), index)
	if back := l.width() - 1 - i; back > 0 {
		place = fmt.Sprintf("%s[%s_at + %d * (%s) - %d]", d.array, name, l.width(), index, back)
	}
	return place, end + 2 + len(field), nil
}

// closing returns the offset of the bracket that closes the one at an offset.
func closing(src string, at int) int {
	depth := 0
	for i := at; i < len(src); i++ {
		switch src[i] {
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(src) - 1
}
