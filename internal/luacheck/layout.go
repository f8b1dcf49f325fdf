package main

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// layout formats a script: two spaces per level, one space around binary operators and after
// commas, none inside brackets, single quotes, no trailing white space, and at most one empty line at a time.
// Line breaks and comments stay where they are.
// Long brackets ([[ … ]]) are not supported, and are an error.
func layout(script []byte) ([]byte, error) {
	var (
		out   bytes.Buffer
		open  []int // line number of each open bracket and block
		last  token // last token of the previous lines, without comments
		empty = true
	)
	for n, text := range strings.Split(strings.TrimSpace(string(script)), "\n") {
		tokens, err := split(text)
		if err != nil {
			return nil, err
		}
		if len(tokens) == 0 {
			if !empty {
				out.WriteByte('\n')
			}
			empty = true
			continue
		}
		empty = false
		closed := 0
		for closed < len(tokens) && closed < len(open) && tokens[closed].closes() {
			closed++
		}
		depth := lines(open[:len(open)-closed])
		if continues(last, tokens[0]) {
			depth++
		}
		out.WriteString(strings.Repeat("  ", depth))
		for i, t := range tokens {
			if i > 0 && spaced(tokens[:i], t) {
				out.WriteByte(' ')
			}
			out.WriteString(t.text)
			if t.closes() && len(open) > 0 {
				open = open[:len(open)-1]
			}
			if t.opens() {
				open = append(open, n)
			}
			if t.kind != comment {
				last = t
			}
		}
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// lines counts the lines with open brackets or blocks. Two brackets that were opened on one line are one level.
func lines(open []int) int { return len(slices.Compact(slices.Clone(open))) }

type kind int

const (
	comment kind = iota + 1
	operand      // a name, a number, a text
	keyword
	symbol
)

type token struct {
	kind kind
	text string
}

var (
	tokenOf = regexp.MustCompile(`^(?:(--.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\.\.)|([A-Za-z_]\w*)|(\.\.|[=~<>]=|[-+*/%^#<>=(){}\[\];:,.]))`)
	spaces  = " \t\r\n"

	errLong  = errors.New("long bracket: write strings and comments line by line")
	errToken = errors.New("not a token of Lua")
)

var keywords = strings.Fields("and break do else elseif end for function if in local not or repeat return then until while")

// split returns the tokens of a line.
func split(line string) ([]token, error) {
	var tokens []token
	for line = strings.Trim(line, spaces); line != ""; line = strings.TrimLeft(line, spaces) {
		m := tokenOf.FindStringSubmatch(line)
		switch {
		case m == nil:
			return nil, errToken
		case strings.HasPrefix(m[0], "--[[") || m[0] == "[" && (strings.HasPrefix(line, "[[") || strings.HasPrefix(line, "[=")):
			return nil, errLong
		case m[1] != "":
			tokens = append(tokens, token{comment, m[1]})
		case m[2] != "":
			tokens = append(tokens, token{operand, singleQuoted(m[2])})
		case slices.Contains(keywords, m[3]):
			tokens = append(tokens, token{keyword, m[3]})
		case m[3] != "":
			tokens = append(tokens, token{operand, m[3]})
		default:
			tokens = append(tokens, token{symbol, m[4]})
		}
		line = line[len(m[0]):]
	}
	return tokens, nil
}

func singleQuoted(text string) string {
	if text[0] != '"' || strings.ContainsAny(text, `'\`) {
		return text
	}
	return "'" + text[1:len(text)-1] + "'"
}

func (t token) is(texts ...string) bool {
	return (t.kind == symbol || t.kind == keyword) && slices.Contains(texts, t.text)
}

func (t token) opens() bool {
	return t.is("(", "{", "[", "then", "do", "repeat", "function", "else")
}

func (t token) closes() bool {
	return t.is(")", "}", "]", "end", "until", "else", "elseif")
}

// joins reports whether a token has operands on both sides.
func (t token) joins() bool {
	return t.is("..", "==", "~=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "^", "=", "and", "or")
}

// continues reports whether a line that begins with t continues the expression of the previous line, which ends with last.
func continues(last, t token) bool {
	return last.joins() || last.is("not", "return", "in") && t.kind != keyword || t.joins() && last.kind != 0
}

// spaced reports whether a space separates t from the tokens before it on a line.
func spaced(before []token, t token) bool {
	last := before[len(before)-1]
	switch {
	case t.kind == comment:
		return true
	case t.is(")", "]", "}", ",", ";", ".", ":"), last.is("(", "[", "{", ".", ":", "#"):
		return false
	case last.is("-"): // a sign belongs to its number
		return len(before) > 1 && (before[len(before)-2].kind == operand || before[len(before)-2].is(")", "]", "}"))
	case t.is("(", "["):
		return last.kind != operand && !last.is(")", "]", "function")
	}
	return true
}
