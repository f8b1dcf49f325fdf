package filter

import (
	"slices"
	"strings"
)

// MaxName is the maximum length of the name of an attribute, in bytes.
const MaxName = 64

// AttributeName reports whether a name is allowed for attributes: 1 to 64 characters of A-Z a-z 0-9 _ -, the first a letter. A name that
// resembles a field or a keyword, ignoring case, is not allowed, so that a misspelled field is an error and not a filter on an attribute:
// the word itself, a prefix of it, or a word that differs by one letter or by two exchanged letters.
func AttributeName(name string) bool {
	if name == "" || len(name) > MaxName || slices.ContainsFunc(reserved(), func(word string) bool { return resembles(strings.ToLower(name), word) }) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// reserved returns the fields and the keywords of the language.
func reserved() []string {
	words := []string{"and", "or", "not", "in", "starts"}
	for _, f := range Fields() {
		words = append(words, string(f))
	}
	return words
}

// resembles reports whether a name is the field, a prefix of it, the field with two adjacent letters exchanged, or differs from a field
// of more than four letters by one letter.
func resembles(name, field string) bool {
	if name == field || len(name) > 2 && strings.HasPrefix(field, name) {
		return true
	}
	i := 0
	for i < len(name) && i < len(field) && name[i] == field[i] {
		i++
	}
	a, b := name[i:], field[i:]
	if len(a) > 1 && len(a) == len(b) && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:] {
		return true
	}
	return len(field) > 4 && (len(a) > 0 && a[1:] == b || len(b) > 0 && a == b[1:] || len(a) > 0 && len(b) > 0 && a[1:] == b[1:])
}
