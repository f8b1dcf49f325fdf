package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a filter.
const (
	MaxBytes  = 4 << 10 // maximum length of a filter
	maxTerms  = 32
	maxValues = 200 // maximum number of values of in
)

// Statuses returns the values of the field status.
func Statuses() []string {
	return []string{"pending", "running", "paused", "completed", failed, "cancelled"}
}

// Parse parses a filter. Durations are relative to now. The error is an *Error.
func Parse(text string, now time.Time) (w Where, err error) {
	p := &parser{text: text, now: now}
	defer func() {
		if stopped, is := recover().(*Error); is {
			w, err = nil, stopped
		}
	}()
	if len(text) > MaxBytes {
		p.failf(0, "the filter has %d bytes; at most %d", len(text), MaxBytes)
	}
	if !utf8.ValidString(text) {
		p.failf(0, "the filter is not UTF-8")
	}
	p.next()
	for p.kind != end {
		if len(w) == maxTerms {
			p.failf(p.start, "more than %d terms", maxTerms)
		}
		w = append(w, p.term())
		if p.kind == end {
			break
		}
		if !p.keyword("and") {
			p.failf(p.start, "expected \"and\" or the end, got %s%s", p.got(), p.hint())
		}
		if p.next(); p.kind == end {
			p.failf(p.start, "a term is missing after and")
		}
	}
	return w, nil
}

type kind int

const (
	end kind = iota
	word
	quoted
	symbol
)

// parser splits the text into tokens. Its methods panic with an *Error, which Parse recovers.
type parser struct {
	text string
	now  time.Time

	at    int // end of the token
	start int // start of the token
	kind  kind
	token string // its text, without quotes
}

// failf panics with an error at a byte of the text.
func (p *parser) failf(at int, format string, args ...any) {
	panic(&Error{Column: utf8.RuneCountInString(p.text[:at]) + 1, Message: fmt.Sprintf(format, args...)})
}

// got returns the token for an error.
func (p *parser) got() string {
	if p.kind == end {
		return "the end"
	}
	return fmt.Sprintf("%.40q", p.token)
}

// hint returns an explanation of syntax that other languages have.
func (p *parser) hint() string {
	if p.keyword("or") {
		return "; values of one field are listed with in (…)"
	}
	return ""
}

func (p *parser) keyword(name string) bool { return p.kind == word && strings.EqualFold(p.token, name) }

// wordRune reports whether a word may contain the character without quotes.
func wordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:+/@", r)
}

func (p *parser) next() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	p.start = p.at
	if p.at == len(p.text) {
		p.kind, p.token = end, ""
		return
	}
	rest := p.text[p.at:]
	switch c := rest[0]; c {
	case '"', '\'':
		p.quoted(c)
		return
	case '=', '(', ')', ',':
		p.kind, p.token = symbol, rest[:1]
	case '!', '<', '>':
		p.kind, p.token = symbol, rest[:1]
		if strings.HasPrefix(rest[1:], "=") {
			p.token = rest[:2]
		}
	default:
		n := strings.IndexFunc(rest, func(r rune) bool { return !wordRune(r) })
		if n < 0 {
			n = len(rest)
		}
		if n == 0 {
			p.failf(p.at, "unexpected character; put a value that contains it in quotes")
		}
		p.kind, p.token = word, rest[:n]
	}
	p.at += len(p.token)
}

func (p *parser) quoted(mark byte) {
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == mark:
			p.kind, p.token, p.at = quoted, b.String(), i+1
			return
		case c == '\\' && i+1 < len(p.text):
			i++
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	p.failf(p.start, "the quote is not closed")
}

func (p *parser) term() Term {
	t := Term{Field: Field(strings.ToLower(p.token))}
	if p.kind == word && t.Field.Attribute() && AttributeName(p.token) {
		t.Field = Field(p.token)
	} else if p.kind != word || t.Field.Attribute() {
		p.failf(p.start, "expected a field, got %s; the fields are %s", p.got(), list(Fields()))
	}
	p.next()
	t.Op = Op(strings.ToLower(p.token))
	allowed := []Op{Equal, NotEqual, In, Starts}
	if t.Field.Attribute() {
		allowed = append(allowed, Before, BeforeOrAt, After, AfterOrAt)
	}
	if t.Field.Timed() {
		allowed = []Op{Before, BeforeOrAt, After, AfterOrAt}
	}
	if t.Field.Flag() {
		allowed = []Op{Equal}
	}
	if p.kind == quoted || !slices.Contains(allowed, t.Op) {
		p.failf(p.start, "expected %s after %s, got %s", list(allowed), t.Field, p.got())
	}
	p.next()
	switch {
	case t.Field.Attribute() && t.ordered():
		p.size(&t)
	case t.Field.Timed():
		t.At, t.Relative = p.moment()
	case t.Op == In:
		t.Texts = p.values(t.Field)
	default:
		t.Texts = []string{p.value(t.Field, t.Op)}
	}
	return t
}

func (p *parser) values(f Field) (all []string) {
	if p.token != "(" || p.kind != symbol {
		p.failf(p.start, "expected ( after in, got %s", p.got())
	}
	for {
		p.next()
		if len(all) == maxValues {
			p.failf(p.start, "more than %d values", maxValues)
		}
		all = append(all, p.value(f, In))
		if p.kind == symbol && p.token == ")" {
			p.next()
			return all
		}
		if p.kind != symbol || p.token != "," {
			p.failf(p.start, "expected , or ), got %s", p.got())
		}
	}
}

func (p *parser) value(f Field, op Op) string {
	if p.kind != word && p.kind != quoted {
		p.failf(p.start, "expected a value of %s, got %s", f, p.got())
	}
	v := p.token
	if f == Status && op != Starts && !slices.Contains(Statuses(), v) {
		p.failf(p.start, "%.40q is not a status; they are %s", v, list(Statuses()))
	}
	if f.Flag() && v != "true" {
		p.failf(p.start, "%.40q is not a value of %s; write %s = true", v, f, f)
	}
	p.next()
	return v
}

// size parses a whole number or a time.
func (p *parser) size(t *Term) {
	if n, err := strconv.ParseInt(p.token, 10, 64); err == nil && (p.kind == word || p.kind == quoted) {
		t.At, t.Texts = n, []string{p.token}
		p.next()
		return
	}
	t.At, t.Relative = p.moment()
}

// moment parses a time, or a duration from now.
func (p *parser) moment() (at int64, relative string) {
	if p.kind != word && p.kind != quoted {
		p.failf(p.start, "expected a time, got %s", p.got())
	}
	t, ok := p.instant()
	if !ok || t.UnixMilli() <= 0 || t.UnixMilli() > maxTime {
		p.failf(p.start, "%.40q is not a time; write -24h, -7d, +2h, 2026-11-22 or 2026-11-22T08:00:00Z", p.token)
	}
	if p.token[0] == '-' || p.token[0] == '+' {
		relative = p.token
	}
	p.next()
	return t.UnixMilli(), relative
}

func (p *parser) instant() (time.Time, bool) {
	if p.token != "" && (p.token[0] == '-' || p.token[0] == '+') {
		from, ok := span(p.token[1:])
		if p.token[0] == '-' {
			from = -from
		}
		return p.now.Add(from), ok
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, p.token); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// span parses a duration without a sign, which may be in days.
func span(text string) (time.Duration, bool) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(days, 10, 15)
		return time.Duration(n) * day, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0 && text[0] != '+'
}

// list joins the alternatives with commas and "or".
func list[T ~string](all []T) string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = string(v)
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
