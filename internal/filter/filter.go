package filter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Field is a property of an instance.
type Field string

// The fields.
const (
	ID            Field = "id"
	Status        Field = "status"
	Orchestration Field = "orchestration"
	Version       Field = "version"
	Parent        Field = "parent"     // instance
	Code          Field = "code"       // of the failure that ended it
	Unanswered    Field = "unanswered" // true: its code has received updates and not answered them
	Stalled       Field = "stalled"    // true: it cannot take a turn
	Started       Field = "started"
	Updated       Field = "updated"
	Ended         Field = "ended"
)

// builtIn reports that the field is not an attribute.
func (f Field) builtIn() bool { return slices.Contains(Fields(), f) }

// Attribute reports that the field is an attribute of the instances.
func (f Field) Attribute() bool { return !f.builtIn() }

// Fields lists the fields in the order in which they are offered.
func Fields() []Field {
	return []Field{Status, Orchestration, ID, Started, Updated, Ended, Code, Version, Parent, Unanswered, Stalled}
}

// Timed reports that the field is a time.
func (f Field) Timed() bool { return f == Started || f == Updated || f == Ended }

// Flag reports that the field is true, or nothing.
func (f Field) Flag() bool { return f == Unanswered || f == Stalled }

// Grouping reads the name of a field or an attribute by whose values instances can be counted; "" is none. The error is an *Error.
func Grouping(name string) (Field, error) {
	f := Field(name)
	switch {
	case name == "":
		return "", nil
	case f == ID || f.Flag() || f.Timed(), f.Attribute() && !AttributeName(name):
		return "", &Error{Column: 1, Message: fmt.Sprintf("instances are counted by status, orchestration, version, parent, code or an attribute, not by %.40q", name)}
	}
	return f, nil
}

// Op is how a term compares.
type Op string

// The comparisons: those of texts, and those of times.
const (
	Equal      Op = "="
	NotEqual   Op = "!="
	In         Op = "in"
	Starts     Op = "starts"
	Before     Op = "<"
	BeforeOrAt Op = "<="
	After      Op = ">"
	AfterOrAt  Op = ">="
)

const (
	failed     = "failed"
	day        = 24 * time.Hour
	timeLayout = "2006-01-02T15:04:05.000Z07:00"
	maxTime    = 253_402_300_799_999                 // Unix ms: the last of RFC 3339
	clockSkew  = int64(time.Hour / time.Millisecond) // of the stores
)

// Term is a condition.
type Term struct {
	Field    Field
	Op       Op
	Texts    []string // of a text or a number; one, or those of In
	At       int64    // of a time, Unix ms; of an attribute that is compared, also the number
	Relative string   // the duration from now that At was read from, such as -24h; empty: none
}

// Where is a filter: all of its terms must match. The empty one selects everything.
type Where []Term

// Row is what terms are compared with. Times are Unix ms, 0 if there is none.
type Row struct {
	ID, Status, Orchestration, Version, Parent, Code string
	Unanswered, Stalled                              string // true, or nothing
	Started, Updated, Ended                          int64
	Attributes                                       map[string]Value
}

// Value is that of an attribute.
type Value struct {
	Text    string
	Number  int64 // of a number, and of a time in Unix ms
	Numeric bool
}

// Value is the text of a field or an attribute; "" without one.
func (r *Row) Value(f Field) string {
	switch f {
	case ID:
		return r.ID
	case Status:
		return r.Status
	case Orchestration:
		return r.Orchestration
	case Version:
		return r.Version
	case Parent:
		return r.Parent
	case Code:
		return r.Code
	case Unanswered:
		return r.Unanswered
	case Stalled:
		return r.Stalled
	default:
		return r.Attributes[string(f)].Text
	}
}

func (r *Row) time(f Field) int64 {
	switch f {
	case Started:
		return r.Started
	case Updated:
		return r.Updated
	default:
		return r.Ended
	}
}

// Match reports whether all terms match.
func (w Where) Match(r *Row) bool {
	for i := range w {
		if !w[i].match(r) {
			return false
		}
	}
	return true
}

func (t *Term) match(r *Row) bool {
	if v := r.Attributes[string(t.Field)]; t.Field.Attribute() && (t.ordered() || v.Numeric) {
		return t.matchNumber(v)
	}
	if t.Field.Timed() {
		at := r.time(t.Field)
		switch t.Op {
		case Before:
			return at != 0 && at < t.At
		case BeforeOrAt:
			return at != 0 && at <= t.At
		case After:
			return at > t.At && at != 0
		default:
			return at >= t.At && at != 0
		}
	}
	return t.matchText(r.Value(t.Field))
}

// ordered reports that the term compares by size.
func (t *Term) ordered() bool {
	return t.Op == Before || t.Op == BeforeOrAt || t.Op == After || t.Op == AfterOrAt
}

func (t *Term) matchNumber(v Value) bool {
	switch t.Op {
	case Before:
		return v.Numeric && v.Number < t.At
	case BeforeOrAt:
		return v.Numeric && v.Number <= t.At
	case After:
		return v.Numeric && v.Number > t.At
	case AfterOrAt:
		return v.Numeric && v.Number >= t.At
	case NotEqual:
		return !t.has(v)
	case Starts:
		return strings.HasPrefix(v.Text, t.Texts[0])
	default:
		return t.has(v)
	}
}

// has reports whether a number or a time is one of the texts.
func (t *Term) has(v Value) bool {
	return slices.ContainsFunc(t.Texts, func(text string) bool {
		n, ok := Number(text)
		return ok && n == v.Number
	})
}

// Number reads a whole number, or a time as Unix ms.
func Number(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, true
	}
	at, err := time.Parse(time.RFC3339, text)
	return at.UnixMilli(), err == nil
}

// Range returns the numbers between which an attribute is that passes a comparison, both included; ok is false for a term that is none.
func (t *Term) Range() (from, until int64, ok bool) {
	from, until = math.MinInt64, math.MaxInt64
	switch {
	case !t.Field.Attribute() || !t.ordered():
		return 0, 0, false
	case t.Op == Before:
		until = max(t.At, math.MinInt64+1) - 1
	case t.Op == BeforeOrAt:
		until = t.At
	case t.Op == After:
		from = min(t.At, math.MaxInt64-1) + 1
	default:
		from = t.At
	}
	return from, until, true
}

func (t *Term) matchText(v string) bool {
	switch t.Op {
	case NotEqual:
		return v != t.Texts[0]
	case Starts:
		return strings.HasPrefix(v, t.Texts[0])
	default:
		return slices.Contains(t.Texts, v)
	}
}

// On returns the terms of some fields: what can be decided where only these are known.
func (w Where) On(fields ...Field) (on Where) {
	for _, t := range w {
		if slices.Contains(fields, t.Field) {
			on = append(on, t)
		}
	}
	return on
}

// Without returns the terms of the other fields.
func (w Where) Without(f Field) (rest Where) {
	for _, t := range w {
		if t.Field != f {
			rest = append(rest, t)
		}
	}
	return rest
}

// Is returns the filter with one term more: that a field has a value.
func (w Where) Is(f Field, value string) Where {
	return append(slices.Clip(w), Term{Field: f, Op: Equal, Texts: []string{value}})
}

// Exactly returns the values that a field may have: those of a term that lists them. Ok is false if no term does.
func (w Where) Exactly(f Field) (values []string, ok bool) {
	for _, t := range w {
		if t.Field == f && (t.Op == Equal || t.Op == In) {
			return t.Texts, true
		}
	}
	return nil, false
}

// Has reports that a row with a status can pass the filter. Only a failed instance has a code, and only an ended one an end.
func (w Where) Has(status string, final bool) bool {
	for i := range w {
		switch t := &w[i]; {
		case t.Field == Status && !t.matchText(status), t.Field == Ended && !final, t.Field == Code && status != failed && !t.matchText(""):
			return false
		}
	}
	return true
}

// Span is a span of time, Unix ms, both ends included.
type Span struct{ From, Until int64 }

// StatusSince returns the span in which a row of the filter has reached its status. A status is reached at or before the last
// commit, and with it if it is final; and at or after the start, for which there is an hour more, since a start has the time of
// another clock.
func (w Where) StatusSince(final bool) Span {
	s := Span{Until: maxTime}
	for _, t := range w {
		if t.Field.Attribute() {
			continue
		}
		if t.Op == Before || t.Op == BeforeOrAt {
			if t.Field != Started {
				s.Until = min(s.Until, t.At)
			}
			continue
		}
		switch {
		case t.Field == Started:
			s.From = max(s.From, t.At-clockSkew)
		case final && t.Field.Timed():
			s.From = max(s.From, t.At)
		}
	}
	return s
}

// Fixed returns the filter with times in place of durations, so that it stays the same.
func (w Where) Fixed() Where {
	w = slices.Clone(w)
	for i := range w {
		w[i].Relative = ""
	}
	return w
}

// String writes the filter so that Parse returns it again.
func (w Where) String() string {
	var b strings.Builder
	for i, t := range w {
		if i > 0 {
			b.WriteString(" and ")
		}
		b.WriteString(string(t.Field) + " " + string(t.Op) + " ")
		switch {
		case t.Relative != "":
			b.WriteString(quote(t.Relative))
		case len(t.Texts) == 0:
			b.WriteString(time.UnixMilli(t.At).UTC().Format(timeLayout))
		case t.Op == In:
			b.WriteString("(")
			for j, v := range t.Texts {
				if j > 0 {
					b.WriteString(", ")
				}
				b.WriteString(quote(v))
			}
			b.WriteString(")")
		default:
			b.WriteString(quote(t.Texts[0]))
		}
	}
	return b.String()
}

// quote leaves a word as it is, unless it could be taken for a keyword.
func quote(s string) string {
	if s != "" && s != "and" && strings.IndexFunc(s, func(r rune) bool { return !wordRune(r) }) < 0 {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
	return b.String()
}

// Error is what is wrong with a text.
type Error struct {
	Column  int // of the character, from 1
	Message string
}

// Error is the column and the message.
func (e *Error) Error() string { return "column " + strconv.Itoa(e.Column) + ": " + e.Message }
