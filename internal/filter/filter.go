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
	Parent        Field = "parent"     // id of the parent instance
	Code          Field = "code"       // code of the failure that ended it
	Unanswered    Field = "unanswered" // true if its code has received updates that it has not answered
	Stalled       Field = "stalled"    // true if it cannot take a turn
	Started       Field = "started"
	Updated       Field = "updated"
	Ended         Field = "ended"
)

// Attribute reports whether the field is an attribute of instances.
func (f Field) Attribute() bool { return !slices.Contains(Fields(), f) }

// Fields returns the fields other than attributes, in the order in which errors and completions list them.
func Fields() []Field {
	return []Field{Status, Orchestration, ID, Started, Updated, Ended, Code, Version, Parent, Unanswered, Stalled}
}

// Timed reports whether the field is a time.
func (f Field) Timed() bool { return f == Started || f == Updated || f == Ended }

// Flag reports whether the only value of the field is "true".
func (f Field) Flag() bool { return f == Unanswered || f == Stalled }

// Grouping parses the name of a field or an attribute by whose values instances can be counted; "" is no field. The error is an *Error.
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

// Op is a comparison.
type Op string

// The comparisons of texts, and of times and numbers.
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
	maxTime    = 253_402_300_799_999                 // Unix ms: the last time of RFC 3339
	clockSkew  = int64(time.Hour / time.Millisecond) // maximum difference of the clocks of NATS and Redis
)

// Term is a condition.
type Term struct {
	Field    Field
	Op       Op
	Texts    []string // values of a text field or a number: one, or the list of In
	At       int64    // Unix ms of a time; the number or Unix ms that an attribute is compared with
	Relative string   // the duration from now that At was computed from, such as -24h; empty: none
}

// Where is a filter: all of its terms must match. The empty filter selects everything.
type Where []Term

// Row contains the values of one instance. Times are Unix ms, 0 if not set.
type Row struct {
	ID, Status, Orchestration, Version, Parent, Code string
	Unanswered, Stalled                              string // "true" or ""
	Started, Updated, Ended                          int64
	Attributes                                       map[string]Value
}

// Value is the value of an attribute.
type Value struct {
	Text    string
	Number  int64 // the number, or the Unix ms of a time
	Numeric bool  // it is a number or a time
}

// Value returns the text of a field or an attribute, or "" if it is not set.
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
		return at != 0 && t.compare(at)
	}
	return t.matchText(r.Value(t.Field))
}

// ordered reports whether the term compares by order.
func (t *Term) ordered() bool {
	return t.Op == Before || t.Op == BeforeOrAt || t.Op == After || t.Op == AfterOrAt
}

// compare compares a number or a time by order.
func (t *Term) compare(n int64) bool {
	switch t.Op {
	case Before:
		return n < t.At
	case BeforeOrAt:
		return n <= t.At
	case After:
		return n > t.At
	default:
		return n >= t.At
	}
}

func (t *Term) matchNumber(v Value) bool {
	switch t.Op {
	case NotEqual:
		return !t.has(v)
	case Starts:
		return strings.HasPrefix(v.Text, t.Texts[0])
	case Equal, In:
		return t.has(v)
	default:
		return v.Numeric && t.compare(v.Number)
	}
}

// has reports whether a number or a time equals one of the texts.
func (t *Term) has(v Value) bool {
	return slices.ContainsFunc(t.Texts, func(text string) bool {
		n, ok := Number(text)
		return ok && n == v.Number
	})
}

// Number parses a whole number, or a time as Unix ms.
func Number(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, true
	}
	at, err := time.Parse(time.RFC3339, text)
	return at.UnixMilli(), err == nil
}

// Range returns the range of numbers, both ends included, that pass the comparison of an attribute; ok is false if the term is no such
// comparison.
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

// On returns the terms about the given fields, for a decision where only these are known.
func (w Where) On(fields ...Field) (on Where) {
	for _, t := range w {
		if slices.Contains(fields, t.Field) {
			on = append(on, t)
		}
	}
	return on
}

// Without returns the terms about all other fields.
func (w Where) Without(f Field) (rest Where) {
	for _, t := range w {
		if t.Field != f {
			rest = append(rest, t)
		}
	}
	return rest
}

// Is returns the filter with an additional term: the field has the value.
func (w Where) Is(f Field, value string) Where {
	return append(slices.Clip(w), Term{Field: f, Op: Equal, Texts: []string{value}})
}

// Exactly returns the values that a field may have, according to the first term that lists them; ok is false if no term does.
func (w Where) Exactly(f Field) (values []string, ok bool) {
	for _, t := range w {
		if t.Field == f && (t.Op == Equal || t.Op == In) {
			return t.Texts, true
		}
	}
	return nil, false
}

// Has reports whether a row with the status can pass the filter; final is whether the status is final. Only a failed instance has a code,
// and only an ended one has an end.
func (w Where) Has(status string, final bool) bool {
	for i := range w {
		t := &w[i]
		if t.Field == Status && !t.matchText(status) || t.Field == Ended && !final || t.Field == Code && status != failed && !t.matchText("") {
			return false
		}
	}
	return true
}

// Span is a period, Unix ms, both ends included.
type Span struct{ From, Until int64 }

// StatusSince returns the period in which a row that passes the filter has reached its status. A status is reached at or before the last
// commit, and a final one by the last commit. It is reached at or after the start, minus an hour, because the time of the start is by the
// clock of NATS.
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

// Fixed returns the filter with absolute times instead of durations from now, so that its meaning no longer changes.
func (w Where) Fixed() Where {
	w = slices.Clone(w)
	for i := range w {
		w[i].Relative = ""
	}
	return w
}

// String formats the filter so that Parse returns it again.
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

// quote quotes a value, unless it is a word that is not a keyword.
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

// Error is a syntax error.
type Error struct {
	Column  int // of the character at which it occurs, from 1
	Message string
}

// Error returns the column and the message.
func (e *Error) Error() string { return "column " + strconv.Itoa(e.Column) + ": " + e.Message }
