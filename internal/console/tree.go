package console

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/pawlrun/pawl/internal/diagnose"
)

// Limits of a payload that is shown as a tree; a larger one is shown as text.
const (
	maxNodes  = 2000
	maxDepth  = 32
	openDepth = 3  // levels that are initially open
	openKids  = 20 // maximum number of children of a level that is initially open
)

// node is a JSON value. The text of the tree is the JSON text, line by line.
type node struct {
	Key   string // name with its quotes and colon; empty: an array element or the root
	Text  string // text of a value without children, with its comma; otherwise the opening bracket
	Close string // closing bracket, with its comma; empty: no children
	Kids  []*node
	Open  bool
}

// treeOf returns the tree of a JSON object or array; nil for other values, and for those that are too large.
func treeOf(v json.RawMessage) *node {
	if len(v) == 0 || len(v) > maxShown || v[0] != '{' && v[0] != '[' {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	left := maxNodes
	n := readNode(d, 0, &left)
	if n == nil || len(n.Kids) == 0 {
		return nil
	}
	return n
}

// readNode reads a value, preserving the order of its members.
func readNode(d *json.Decoder, depth int, left *int) *node {
	t, err := d.Token()
	if *left--; err != nil || *left < 0 || depth > maxDepth {
		return nil
	}
	bracket, is := t.(json.Delim)
	if !is {
		return &node{Text: jsonText(t)}
	}
	n := &node{Text: bracket.String(), Close: map[json.Delim]string{'{': "}", '[': "]"}[bracket]}
	for d.More() {
		key := ""
		if bracket == '{' {
			name, err := d.Token()
			if err != nil {
				return nil
			}
			key = jsonText(name) + ": "
		}
		kid := readNode(d, depth+1, left)
		if kid == nil {
			return nil
		}
		if kid.Key = key; len(n.Kids) > 0 {
			n.Kids[len(n.Kids)-1].comma()
		}
		n.Kids = append(n.Kids, kid)
	}
	if _, err := d.Token(); err != nil {
		return nil
	}
	if n.Open = depth < openDepth && len(n.Kids) <= openKids || depth == 0; len(n.Kids) == 0 {
		n.Text, n.Close = n.Text+n.Close, ""
	}
	return n
}

func (n *node) comma() {
	if n.Close != "" {
		n.Close += ","
		return
	}
	n.Text += ","
}

// Parts returns the number of children, which is shown while the value is closed.
func (n *node) Parts() string { return diagnose.Counted(len(n.Kids), "part") }

func jsonText(t json.Token) string {
	switch t := t.(type) {
	case json.Number:
		return t.String()
	case bool:
		return strconv.FormatBool(t)
	case string:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // the template escapes it
		if err := e.Encode(t); err != nil {
			return strconv.Quote(t)
		}
		return string(bytes.TrimSpace(b.Bytes()))
	default:
		return "null"
	}
}

// first returns the first n elements of a list. A page shows the elements beyond them on demand.
func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

func beyond(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(min(n, v.Len()), v.Len()).Interface()
}

// number formats a number of any type with separators.
func number(n any) string {
	v := reflect.ValueOf(n)
	if v.CanUint() {
		return diagnose.Number(v.Uint())
	}
	return diagnose.Number(v.Int())
}

// idText shortens a long id in its middle, because ids of one kind differ at their ends.
func idText(id string) string {
	if len(id) <= maxID {
		return id
	}
	return id[:maxID/2] + "…" + id[len(id)-maxID/2+4:] // ids are ASCII
}

// maxID is the maximum length of an id that lists show in full.
const maxID = 60
