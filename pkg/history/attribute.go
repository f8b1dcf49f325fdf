package history

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
	MaxAttributes     = 8
	MaxAttributeValue = 256 // bytes
)

// ErrAttribute is the error of an attribute that no instance can have.
var ErrAttribute = errors.New("bad attribute")

// AttributeKind is the type of an attribute's value.
type AttributeKind byte

// The kinds.
const (
	Keyword AttributeKind = iota // an exact text
	Bool
	Int
	Time
)

// attributeTime is the text of a time, in UTC.
const attributeTime = "2006-01-02T15:04:05.000Z"

// Attribute is a property by which instances are found. It has one text for each value.
type Attribute struct {
	Name  string
	Kind  AttributeKind
	Value string // of a time attributeTime
}

// Attributes are those of an instance, ordered by name. Their text is a JSON object:
//
//	{"due":{"time":"2026-11-22T08:00:00.000Z"},"items":5,"paid":true,"tenant":"acme"}
type Attributes []Attribute

// AttributeOf is the attribute of a string, bool, int64 or time.Time.
func AttributeOf(name string, value any) (Attribute, error) {
	a := Attribute{Name: name}
	switch v := value.(type) {
	case string:
		a.Value = v
	case bool:
		a.Kind, a.Value = Bool, strconv.FormatBool(v)
	case int64:
		a.Kind, a.Value = Int, strconv.FormatInt(v, 10)
	case time.Time:
		a.Kind, a.Value = Time, v.UTC().Format(attributeTime)
	default:
		return a, fmt.Errorf("%w: %s: a %T is no text, bool, whole number or time", ErrAttribute, name, value)
	}
	if a.Value == "" || len(a.Value) > MaxAttributeValue || strings.ToValidUTF8(a.Value, "") != a.Value {
		return a, fmt.Errorf("%w: %s: a value has 1 to %d bytes of UTF-8", ErrAttribute, name, MaxAttributeValue)
	}
	if !filter.AttributeName(name) {
		return a, fmt.Errorf("%w: name %.80q: 1 to %d characters of [A-Za-z0-9_-] with a letter first, and nothing like a field of a filter, are allowed",
			ErrAttribute, name, filter.MaxName)
	}
	return a, nil
}

// Number is the value of an Int, and that of a Time in Unix ms.
func (a Attribute) Number() (n int64, ok bool) {
	switch a.Kind {
	case Int:
		n, err := strconv.ParseInt(a.Value, 10, 64)
		return n, err == nil
	case Time:
		t, err := time.Parse(attributeTime, a.Value)
		return t.UnixMilli(), err == nil
	default:
		return 0, false
	}
}

// With returns the attributes with one more, in place of one of that name.
func (as Attributes) With(a Attribute) (Attributes, error) {
	as = as.Without(a.Name)
	if len(as) >= MaxAttributes {
		return as, fmt.Errorf("%w: %s: an instance has at most %d attributes", ErrAttribute, a.Name, MaxAttributes)
	}
	i, _ := slices.BinarySearchFunc(as, a.Name, func(x Attribute, name string) int { return strings.Compare(x.Name, name) })
	return slices.Insert(as, i, a), nil
}

// Without returns the attributes without one.
func (as Attributes) Without(name string) Attributes {
	return slices.DeleteFunc(slices.Clone(as), func(x Attribute) bool { return x.Name == name })
}

// Get returns the attribute of a name.
func (as Attributes) Get(name string) (Attribute, bool) {
	for _, a := range as {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}

// String is the text; {} for none.
func (as Attributes) String() string {
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
	if err != nil { // texts and numbers always encode
		return "{}"
	}
	return string(b)
}

// ParseAttributes reads the text of attributes; "" has none.
func ParseAttributes(text string) (as Attributes, _ error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > MaxAttributes*8*MaxAttributeValue {
		return nil, fmt.Errorf("%w: %d bytes", ErrAttribute, len(text))
	}
	all := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&all); err != nil || d.More() {
		return nil, fmt.Errorf("%w: %.100q is no object of texts, whole numbers, true, false and {\"time\": …}", ErrAttribute, text)
	}
	for name, v := range all {
		a, err := parseAttribute(name, v)
		if err == nil {
			as, err = as.With(a)
		}
		if err != nil {
			return nil, err
		}
	}
	return as, nil
}

func parseAttribute(name string, v any) (Attribute, error) {
	switch x := v.(type) {
	case json.Number:
		n, err := x.Int64()
		if err != nil {
			return Attribute{}, fmt.Errorf("%w: %s: %.40q is not a whole number of 64 bits", ErrAttribute, name, x)
		}
		v = n
	case map[string]any:
		text, _ := x["time"].(string)
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || len(x) != 1 {
			return Attribute{}, fmt.Errorf("%w: %s: want {\"time\": \"2026-11-22T08:00:00Z\"}", ErrAttribute, name)
		}
		v = t
	}
	return AttributeOf(name, v)
}
