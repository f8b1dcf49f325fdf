package gateway

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// anyJSON stands for a body of any JSON value.
type anyJSON struct{}

// object is a JSON object. It is encoded with sorted keys, so the document is deterministic.
type object = map[string]any

// document returns the OpenAPI 3.1 document of the operations.
func document(all []operation) []byte {
	s := schemas{"Problem": schemaOfStruct(reflect.TypeFor[problem](), nil)}
	paths := object{}
	for _, o := range all {
		item, there := paths[o.path].(object)
		if !there {
			item = object{}
			paths[o.path] = item
		}
		item[strings.ToLower(o.method)] = s.operation(o)
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Pawl", "version": "1",
			"description": "Instances, limits and workers of one namespace. Times are RFC 3339 in UTC. Payloads are JSON values.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"paths": paths,
		"components": object{
			"schemas":         s,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
		"security": []any{object{}, object{"token": []any{}}},
	}
	b, _ := json.MarshalIndent(doc, "", "  ") //nolint:errchkjson // strings, numbers and lists
	return append(b, '\n')
}

// schemas are the component schemas of the document, by name.
type schemas object

func (s schemas) operation(o operation) object {
	var params []any
	for rest := o.path; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		rest = tail
	}
	for _, p := range o.query {
		schema := object{"type": cmp.Or(p.kind, "string")}
		params = append(params, object{"name": p.name, "in": "query", "description": p.description, "schema": schema})
	}
	if o.keyed {
		params = append(params, object{
			"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": maxKey},
			"description": "A repeat of the request with the same key within an hour has no effect.",
		})
	}
	responses := object{"default": object{
		"description": "The request was refused or failed.",
		"content":     object{"application/problem+json": object{"schema": reference("Problem")}},
	}}
	if o.stream != nil {
		responses["200"] = object{
			"description": "Events: changes, with an object that has a list of them; resync, when changes may have been missed; ready.",
			"content":     object{"text/event-stream": object{"schema": object{"type": "string"}}},
		}
	}
	for status, body := range o.replies {
		r := object{"description": describeStatus(status)}
		if body != nil {
			r["content"] = object{"application/json": object{"schema": s.of(reflect.TypeOf(body))}}
		}
		responses[strconv.Itoa(status)] = r
	}
	out := object{"operationId": o.id, "summary": o.summary, "description": "Requires the role " + o.role.String() + ".", "responses": responses}
	if params != nil {
		out["parameters"] = params
	}
	if o.request != nil {
		out["requestBody"] = object{
			"required": !o.optional, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(o.request))}},
		}
	}
	return out
}

func describeStatus(status int) string {
	switch status {
	case 202:
		return "Accepted: the message is stored and takes effect, or the instance has not ended yet."
	case 204:
		return "There is nothing to report."
	default:
		return "OK."
	}
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// of returns the schema of a type. A struct becomes a component, and the result refers to it.
func (s schemas) of(t reflect.Type) any {
	if t == reflect.TypeFor[anyJSON]() || t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface {
		return object{"description": "Any JSON value."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, known := s[name]; !known {
			s[name] = object{} // a placeholder, in case the type contains itself
			s[name] = schemaOfStruct(t, s)
		}
		return reference(name)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	default:
		return object{"type": "integer"}
	}
}

// schemaOfStruct returns the schema of an object. A field is required unless it is omitted when empty.
func schemaOfStruct(t reflect.Type, s schemas) object {
	properties, required := object{}, []string{}
	for f := range t.Fields() {
		if f.Anonymous && f.Tag.Get("json") == "" {
			inner := schemaOfStruct(f.Type, s)
			maps.Copy(properties, inner["properties"].(object))          //nolint:forcetypeassert // made here
			required = append(required, inner["required"].([]string)...) //nolint:forcetypeassert // made here
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		schema := s.of(f.Type)
		omitted := strings.Contains(options, "omit")
		if f.Type.Kind() == reflect.Pointer && !omitted { // null
			schema = object{"type": []string{"string", "null"}}
		}
		properties[name] = schema
		if !omitted {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return object{"type": "object", "properties": properties, "required": required}
}
