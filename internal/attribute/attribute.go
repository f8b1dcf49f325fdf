// Package attribute defines the attributes of instances, by which lists find them, and their text.
package attribute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
)

// Bounds of attributes.
const (
	MaxPerInstance = 8
	MaxValue       = 256 // bytes
)

// ErrInvalid is the error of an invalid attribute.
var ErrInvalid = errors.New("bad attribute")

// Kind is the type of an attribute's value.
type Kind byte

// The kinds of attribute values.
const (
	Keyword Kind = iota // an exact text
	Bool
	Int
	Time
)

// timeLayout is the layout of a time value, in UTC.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Attribute is a named value of an instance by which lists find it. Each value has exactly one text.
type Attribute struct {
	Name  string
	Kind  Kind
	Value string // a Time has the layout timeLayout
}

// Set contains the attributes of an instance, sorted by name. Their text is a JSON object:
//
//	{"due":{"time":"2026-11-22T08:00:00.000Z"},"items":5,"paid":true,"tenant":"acme"}
type Set []Attribute

// Of returns the attribute with a value of type string, bool, int64 or time.Time. The error matches ErrInvalid.
func Of(name string, value any) (Attribute, error) {
	a := Attribute{Name: name}
	if err := checkName(name); err != nil {
		return a, err
	}
	switch v := value.(type) {
	case string:
		a.Value = v
	case bool:
		a.Kind, a.Value = Bool, strconv.FormatBool(v)
	case int64:
		a.Kind, a.Value = Int, strconv.FormatInt(v, 10)
	case time.Time:
		if y := v.UTC().Year(); y < 0 || y > 9999 { // its text would not be parsed again
			return a, fmt.Errorf("%w: %s: the year of a time must be 0 to 9999 in UTC", ErrInvalid, name)
		}
		a.Kind, a.Value = Time, v.UTC().Format(timeLayout)
	default:
		return a, fmt.Errorf("%w: %s: %T is not a string, bool, int64 or time", ErrInvalid, name, value)
	}
	if a.Value == "" || len(a.Value) > MaxValue || strings.ToValidUTF8(a.Value, "") != a.Value {
		return a, fmt.Errorf("%w: %s: a value must have 1 to %d bytes of UTF-8", ErrInvalid, name, MaxValue)
	}
	return a, nil
}

func checkName(name string) error {
	if !filter.AttributeName(name) {
		return fmt.Errorf("%w: name %.80q: must have 1 to %d characters of [A-Za-z0-9_-], begin with a letter and differ from the fields of filters",
			ErrInvalid, name, filter.MaxName)
	}
	return nil
}

// Number returns the value of an Int, or of a Time in Unix ms. ok is false for other kinds.
func (a Attribute) Number() (n int64, ok bool) {
	switch a.Kind {
	case Int:
		n, err := strconv.ParseInt(a.Value, 10, 64)
		return n, err == nil
	case Time:
		t, err := time.Parse(timeLayout, a.Value)
		return t.UnixMilli(), err == nil
	default:
		return 0, false
	}
}

// With returns a copy with the attribute added, or replaced if there is one of that name. The error matches ErrInvalid.
func (as Set) With(a Attribute) (Set, error) {
	as = as.Without(a.Name)
	if len(as) >= MaxPerInstance {
		return as, fmt.Errorf("%w: %s: an instance has at most %d attributes", ErrInvalid, a.Name, MaxPerInstance)
	}
	i, _ := slices.BinarySearchFunc(as, a.Name, func(x Attribute, name string) int { return strings.Compare(x.Name, name) })
	return slices.Insert(as, i, a), nil
}

// Without returns a copy without the attribute of that name.
func (as Set) Without(name string) Set {
	return slices.DeleteFunc(slices.Clone(as), func(x Attribute) bool { return x.Name == name })
}

// Get returns the attribute of that name.
func (as Set) Get(name string) (Attribute, bool) {
	i := slices.IndexFunc(as, func(a Attribute) bool { return a.Name == name })
	if i < 0 {
		return Attribute{}, false
	}
	return as[i], true
}

// String returns the text; {} if there are none.
func (as Set) String() string {
	all := make(map[string]any, len(as))
	for _, a := range as {
		switch a.Kind {
		case Bool:
			all[a.Name] = a.Value == "true"
		case Int:
			all[a.Name] = json.Number(a.Value)
		case Time:
			all[a.Name] = map[string]string{"time": a.Value}
		default:
			all[a.Name] = a.Value
		}
	}
	b, err := json.Marshal(all)
	if err != nil { // strings and numbers can always be encoded
		return "{}"
	}
	return string(b)
}

// Parse reads the text of attributes; "" means none. The error matches ErrInvalid.
func Parse(text string) (as Set, _ error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > MaxPerInstance*8*MaxValue {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalid, len(text))
	}
	all := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&all); err != nil || d.More() {
		return nil, fmt.Errorf("%w: %.100q is not an object of strings, whole numbers, booleans and {\"time\": …}", ErrInvalid, text)
	}
	for name, v := range all {
		a, err := parseOne(name, v)
		if err == nil {
			as, err = as.With(a)
		}
		if err != nil {
			return nil, err
		}
	}
	return as, nil
}

func parseOne(name string, v any) (Attribute, error) {
	if err := checkName(name); err != nil {
		return Attribute{}, err
	}
	switch x := v.(type) {
	case json.Number:
		n, err := x.Int64()
		if err != nil {
			return Attribute{}, fmt.Errorf("%w: %s: %.40q is not a whole number of 64 bits", ErrInvalid, name, x)
		}
		v = n
	case map[string]any:
		text, _ := x["time"].(string)
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || len(x) != 1 {
			return Attribute{}, fmt.Errorf("%w: %s: want {\"time\": \"2026-11-22T08:00:00Z\"}", ErrInvalid, name)
		}
		v = t
	}
	return Of(name, v)
}
