package payload

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// field is a field of a struct as encoding/json sees it.
type field struct {
	name   string // name in JSON
	path   string // path in Go
	always bool   // encoded even when zero
}

// structure checks a struct that is encoded field by field.
func (b *builder) structure(t reflect.Type, n *node, addressable bool, path string) {
	fields := b.fields(t, n, addressable, path, []reflect.Type{t})
	names := make(map[string]string, len(fields))
	for _, f := range fields {
		if other, twice := names[f.name]; twice {
			b.refusef(path, "%s has the fields %s and %s of the same JSON name %q, so that one would be lost; give one of them another name with a json tag", t, other, f.path, f.name)
		}
		names[f.name] = f.path
	}
	if len(fields) == 0 && slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Name != "_" }) {
		b.refusef(path, "%s has no field that is encoded, so that its value would be lost; export its fields, or give it MarshalJSON and UnmarshalJSON", t)
	}
}

// fields checks the fields of a struct, and returns them together with those of the structs embedded in it.
func (b *builder) fields(t reflect.Type, n *node, addressable bool, path string, within []reflect.Type) []field {
	var all []field
	n.fields = nil // a type may be checked twice: see visit
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, tagged := tagOf(f)
		if !tagged && name == "-" || !f.IsExported() && !embedsStruct(f) {
			continue
		}
		omitted := options.has("omitempty") || options.has("omitzero")
		n.fields = append(n.fields, fieldAt{i, omitted})
		at := path + "." + f.Name
		if !f.Anonymous || tagged || deref(f.Type).Kind() != reflect.Struct {
			if !f.IsExported() { // an embedded struct whose tag gives it a name
				b.refusef(at, "%s is embedded under the JSON name %q and not exported; name the field and export it", f.Type, name)
			}
			b.part(n, f.Type, addressable, at)
			b.quoted(f, options, at)
			all = append(all, field{name: name, path: f.Name, always: !omitted})
			continue
		}
		for _, inner := range b.embedded(f, n, addressable, at, within) {
			inner.path = f.Name + "." + inner.path
			all = append(all, inner)
		}
	}
	return all
}

// embedded checks an embedded struct and returns its fields.
func (b *builder) embedded(f reflect.StructField, n *node, addressable bool, path string, within []reflect.Type) []field {
	t, pointer := deref(f.Type), f.Type.Kind() == reflect.Pointer
	switch {
	case slices.Contains(within, t):
		b.refusef(path, "%s is embedded in itself; name the field", t)
		return nil
	case implements(t, jsonMarshals) || implements(t, textMarshals) || implements(t, jsonUnmarshals) || implements(t, textUnmarshals):
		b.refusef(path, "%s is embedded, so that its own encoding is not used; name the field", t)
		return nil
	case pointer && !f.IsExported():
		b.refusef(path, "an embedded pointer to %s, which is not exported, cannot be decoded; embed the struct itself, or export it", t)
		return nil
	}
	inner := &node{}
	if b.nodes[t] == nil {
		b.nodes[t] = inner
	}
	fields := b.fields(t, inner, addressable || pointer, path, append(slices.Clone(within), t))
	if pointer {
		always := slices.ContainsFunc(fields, func(f field) bool { return f.always })
		if !always {
			b.refusef(path, "an embedded pointer to %s, all of whose fields may be omitted, comes back nil; name the field", t)
		}
		if b.nodes[f.Type] == nil {
			b.nodes[f.Type] = &node{parts: []reflect.Type{t}}
		}
		for i := range fields { // omitted together with the pointer
			fields[i].always = false
		}
	}
	n.parts = append(n.parts, f.Type)
	return fields
}

// quoted rejects the tag option "string" on a type that is encoded by methods, because it is decoded without the option.
func (b *builder) quoted(f reflect.StructField, options tagOptions, path string) {
	t := deref(f.Type)
	if options.has("string") && (implements(t, jsonMarshals) || implements(t, textMarshals)) {
		b.refusef(path, "the tag option \"string\" does not work with %s, which has an encoding of its own; remove it", t)
	}
}

// promoted checks a struct whose methods may be promoted from an embedded struct. Such methods do not encode the other fields.
func (b *builder) promoted(t reflect.Type, n *node, marshal, unmarshal, path string) {
	if t.Kind() != reflect.Struct {
		return
	}
	var from *reflect.StructField
	others := 0
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, tagged := tagOf(f)
		switch {
		case f.Anonymous && (f.Type.Kind() == reflect.Interface || implements(deref(f.Type), jsonMarshals) || implements(deref(f.Type), textMarshals)):
			if from == nil {
				from = &f
				n.fields = []fieldAt{{index: i}}
				continue
			}
			others++
		case (f.IsExported() || embedsStruct(f)) && (tagged || name != "-"):
			others++
		}
	}
	if from == nil || !isPromoted(t, marshal) && !isPromoted(t, unmarshal) {
		n.fields = nil
		return
	}
	switch {
	case others > 0:
		b.refusef(path, "%s has the methods %s and %s of %s, which is embedded, and its other fields would be lost; name the field", t, marshal, unmarshal, from.Type)
	case from.Type.Kind() == reflect.Pointer || from.Type.Kind() == reflect.Interface:
		b.refusef(path, "%s has the methods %s and %s of %s, which is embedded and may be nil; embed the value or name the field", t, marshal, unmarshal, from.Type)
	case t.Name() == "":
		b.refusef(path, "%s is encoded by the methods of %s and decoded without them; give the type a name", t, from.Type)
	case from.IsExported():
		n.opaque = false // encoded like the embedded type
		b.part(n, from.Type, true, path+"."+from.Name)
	}
}

// isPromoted reports whether the type has the method from an embedded field. The compiler generates a wrapper for such a method, in a
// file with a special name, and may inline the method into it.
func isPromoted(t reflect.Type, method string) bool {
	m, ok := methodOf(t, method)
	if !ok {
		return false
	}
	fn := runtime.FuncForPC(m.Func.Pointer())
	if fn == nil {
		return false
	}
	if file, _ := fn.FileLine(fn.Entry()); file == "<autogenerated>" {
		return true
	}
	owner, found := strings.CutSuffix(fn.Name(), "."+method)
	owner = strings.ReplaceAll(owner, "[...]", "")
	return found && strings.Trim(owner[strings.LastIndex(owner, ".")+1:], "(*)") != plainName(t.Name())
}

// methodOf returns a method of the type, or of a pointer to it. It is only called with constant names, so that the linker drops methods
// with other names.
func methodOf(t reflect.Type, method string) (m reflect.Method, ok bool) {
	for _, t := range []reflect.Type{t, reflect.PointerTo(t)} {
		switch method {
		case "MarshalJSON":
			m, ok = t.MethodByName("MarshalJSON")
		case "UnmarshalJSON":
			m, ok = t.MethodByName("UnmarshalJSON")
		case "MarshalText":
			m, ok = t.MethodByName("MarshalText")
		case "UnmarshalText":
			m, ok = t.MethodByName("UnmarshalText")
		}
		if ok {
			return m, true
		}
	}
	return m, false
}

// plainName returns the name of a type without its type arguments.
func plainName(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return name
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		return t.Elem()
	}
	return t
}

// embedsStruct reports whether the field is an embedded struct: its exported fields are encoded even if
// its type is not exported.
func embedsStruct(f reflect.StructField) bool {
	return f.Anonymous && deref(f.Type).Kind() == reflect.Struct
}

type tagOptions string

func (o tagOptions) has(option string) bool {
	return slices.Contains(strings.Split(string(o), ","), option)
}

// tagOf returns the name of a field in JSON, the options of its tag, and whether the name is from the tag. For a field that is omitted,
// the name is "-" and not from the tag.
func tagOf(f reflect.StructField) (name string, options tagOptions, tagged bool) {
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "-", "", false
	}
	name, rest, _ := strings.Cut(tag, ",")
	if name == "" || !validName(name) {
		return f.Name, tagOptions(rest), false
	}
	return name, tagOptions(rest), true
}

// validName reports whether encoding/json uses a name from a tag.
func validName(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}
