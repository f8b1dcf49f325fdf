package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/attribute"
)

// attributesOf parses the attributes of a command line.
func attributesOf(args []string) (as attribute.Set, _ error) {
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("--attribute %q: want NAME=VALUE", arg)
		}
		a, err := attribute.Of(name, attributeValue(text))
		if err == nil {
			as, err = as.With(a)
		}
		if err != nil {
			return nil, fmt.Errorf("--attribute: %w", err)
		}
	}
	return as, nil
}

func attributeValue(text string) any {
	if unquoted, err := strconv.Unquote(text); err == nil {
		return unquoted
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	return text
}

// attributesText formats the attributes of a description, a JSON object, as attributesOf parses them.
func attributesText(object string) string {
	all, err := attribute.Parse(object)
	if err != nil {
		return object
	}
	texts := make([]string, len(all))
	for i, a := range all {
		value := a.Value
		if _, same := attributeValue(value).(string); a.Kind == attribute.Keyword && (!same || strings.ContainsAny(value, ", \"")) {
			value = strconv.Quote(value)
		}
		texts[i] = a.Name + "=" + value
	}
	return strings.Join(texts, ", ")
}
